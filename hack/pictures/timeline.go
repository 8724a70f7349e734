package main

import (
	"fmt"
	"strings"
	"time"
)

// The size of the timeline, in pixels.
const (
	timelineWidth = 900
	labels        = 64
	top           = 44
	rowHeight     = 30
	barHeight     = 16
)

// colours are those of the phases.
var colours = map[phase]string{joins: doubt, serves: good, behind: busy, leaving: faint}

// short are the letters of steps above the bars.
var short = map[string]string{"Create": "create", "Delete": "delete", "MoveLeader": "move leader", "RemoveMember": "", "ReleaseHook": ""}

// drawTimeline draws what becomes of each machine from half a minute before the change on.
func drawTimeline(s story) string {
	from := s.changed - 30*time.Second
	to := s.end + 15*time.Second
	x := func(at time.Duration) float64 {
		at = min(max(at, from), to)
		return labels + float64(timelineWidth-labels-margin)*float64(at-from)/float64(to-from)
	}
	var b strings.Builder
	height := top + len(s.machines)*rowHeight + 76
	begin(&b, timelineWidth, height, "a rollout of three machines, one more than wanted at a time")
	label(&b, margin, 24, 13, plain, "A rollout of three machines with maxSurge 1, in a simulated world of internal/core/sim")
	for i, name := range s.machines {
		y := top + i*rowHeight
		label(&b, margin, y+barHeight+5, 12, plain, name)
		for _, one := range s.spans[name] {
			if one.to < 0 {
				one.to = to
			}
			if one.to <= from {
				continue
			}
			bar(&b, x(one.from), y+8, x(one.to)-x(one.from), barHeight, colours[one.phase])
			if one.leads {
				bar(&b, x(one.from), y+14, x(one.to)-x(one.from), 4, plain)
			}
		}
	}
	for _, one := range s.steps {
		if text := short[one.text]; text != "" && one.at >= from {
			label(&b, x(one.at), top+rowOf(s, one.machine)*rowHeight+6, 10, plain, text)
		}
	}
	drawAxis(&b, s, x, to)
	b.WriteString("</svg>\n")
	return b.String()
}

// rowOf is the row of the machine that a step is about.
func rowOf(s story, machine string) int {
	for i, name := range s.machines {
		if name == machine {
			return i
		}
	}
	return len(s.machines)
}

// drawAxis draws the time since the change, and what the colours mean.
func drawAxis(b *strings.Builder, s story, x func(time.Duration) float64, to time.Duration) {
	bottom := top + len(s.machines)*rowHeight + 8
	for at := time.Duration(0); s.changed+at <= to; at += 30 * time.Second {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" font-size="11" text-anchor="middle">%d:%02d</text>`+"\n",
			x(s.changed+at), bottom+12, faint, int(at.Minutes()), int(at.Seconds())%60)
	}
	left := float64(margin)
	for _, one := range []phase{behind, joins, serves, leaving} {
		bar(b, left, bottom+32, 12, 12, colours[one])
		label(b, left+18, bottom+42, 12, plain, string(one))
		left += 34 + 7.4*float64(len(one))
	}
	bar(b, left, bottom+36, 18, 4, plain)
	label(b, left+24, bottom+42, 12, plain, "leads etcd")
	label(b, timelineWidth-190, bottom+42, 12, faint, "minutes since the change")
}

// bar draws a rectangle.
func bar(b *strings.Builder, x float64, y int, width float64, height int, colour string) {
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, width, height, colour)
}

// label writes text that begins at x.
func label(b *strings.Builder, x float64, y, size int, colour, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" font-size="%d">%s</text>`+"\n", x, y, colour, size, escape(text))
}
