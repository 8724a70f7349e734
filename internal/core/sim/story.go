package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// A Story is a world's life for people: one line for whatever happened or was
// decided, with the time and the hosts as they truly were.
type Story struct {
	lines []line
	last  string
}

type line struct {
	at    time.Duration
	brief string
	text  string
}

// tell adds what happened.
func (w *World) tell(format string, args ...any) {
	if w.story != nil {
		w.story.lines = append(w.story.lines, line{w.now.Sub(w.start), w.brief(), "* " + fmt.Sprintf(format, args...)})
	}
}

// told adds a decision, if it is another than the last. What a wait says changes
// as time goes by; its reason does not.
func (w *World) told(d plan.Decision) {
	if w.story == nil || d.Step.Verb == plan.Wait && w.story.last == d.Rule+d.Reason {
		return
	}
	w.story.last = d.Rule + d.Reason
	w.story.lines = append(w.story.lines, line{w.now.Sub(w.start), w.brief(), d.String()})
}

// String writes the story.
func (s *Story) String() string {
	var b strings.Builder
	for _, l := range s.lines {
		fmt.Fprintf(&b, "%6s %-36s %s\n", l.at.Truncate(time.Second), l.brief, l.text)
	}
	return b.String()
}

// brief writes the hosts in one line: their number and domain, * outdated, ~ on the
// way, = made ahead and held back, x broken, ? up and not well, M marked, ! being deleted, u updated in place, ^ leads, l a learner's, -
// without member, and what is left of members whose host is gone.
func (w *World) brief() string {
	var parts []string
	for _, h := range w.hosts {
		parts = append(parts, w.briefHost(h)+w.briefMember(h))
	}
	for _, m := range w.members {
		if w.named(m.host.name) != m.host {
			parts = append(parts, "("+m.id+")")
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// briefHost writes a host without its member.
func (w *World) briefHost(h *host) string {
	text := fmt.Sprint(h.number, h.domain)
	if h.spec != w.spec {
		text += "*"
	}
	text += h.briefState()
	if h.marked != "" {
		text += "M"
	}
	if h.deleting {
		text += "!"
	}
	if h.isUpdating() {
		text += "u"
	}
	return text
}

// briefState is a letter for what a host is not yet, or not any more; empty: it is up and well.
func (h *host) briefState() string {
	switch {
	case h.broken():
		return "x"
	case h.held:
		return "="
	case h.stage < up:
		return "~"
	case h.sick || !h.unready.IsZero() || h.gate:
		return "?"
	}
	return ""
}

func (w *World) briefMember(h *host) string {
	switch {
	case w.setup.External:
		return ""
	case h.member == nil || h.member.removed:
		return "-"
	case h.member.learner:
		return "l"
	case h.member == w.leader:
		return "^"
	case !h.member.running:
		return "o"
	}
	return ""
}
