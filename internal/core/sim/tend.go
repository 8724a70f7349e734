package sim

import (
	"math/rand"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where members are defragmented at rest, and where people ask for something to be done about etcd.
const (
	Loosen        Kind = "loosen"           // the data of the member of machine N take more than they need
	AskDefragment Kind = "ask defragment"   // a person asks for it
	AskDisarm     Kind = "ask disarm"       // a person asks that the alarm NOSPACE be ended
	AskLead       Kind = "ask for the lead" // a person asks that the member of machine N lead
)

// tidySalt keeps what is drawn of this apart from what else is drawn of a seed.
const tidySalt = 0x71d7

// Tidy is how members are defragmented at rest.
type Tidy struct {
	// Percent and Single are plan.Defragmentation's; the size is 50 MiB.
	Percent int
	Single  bool
	// Takes is how long a member does not answer while it is defragmented, after the controller has given up waiting for it; 0: it waits.
	Takes time.Duration
}

// drawTidy has members defragmented at rest in some groups, and people ask for something in some.
func (s *Setup) drawTidy(seed int64) {
	r := rand.New(rand.NewSource(seed ^ tidySalt))
	if s.Sturdy || s.External || r.Intn(3) > 0 {
		return
	}
	s.Tidy = Tidy{Percent: pick(r, 0, 45, 45), Single: r.Intn(2) == 0, Takes: pick(r, 0, 0, 20*time.Second, 5*time.Minute)}
	for range 1 + r.Intn(4) {
		at := time.Duration(r.Intn(3600)) * time.Second
		for n := range 1 + r.Intn(7) {
			s.Script = inOrder(append(s.Script, Event{At: at, Kind: Loosen, N: n + 1})...)
		}
		if r.Intn(2) == 0 {
			asks := Event{At: at + time.Duration(r.Intn(600))*time.Second, Kind: pick(r, AskDefragment, AskDisarm, AskLead), N: 1 + r.Intn(7)}
			s.Script = inOrder(append(s.Script, asks)...)
		}
	}
}

// tidiness is the truth about what members need of what their data take.
type tidiness struct {
	// loose are those that need half of it, tight those that need all. busy is until when a member is defragmented.
	loose, tight map[*member]bool
	busy         map[*member]time.Time
	// asked is what the group's object says.
	asked plan.Requests
}

// tidier is what happens about it.
type tidier struct{ *World }

// befall lets data take more than they need, or a person ask. It reports whether the event was one of these.
func (w tidier) befall(e Event) bool {
	h := w.number(e.N)
	switch e.Kind {
	case Loosen:
		if h != nil && h.member != nil {
			w.tell("the data of %s take more than they need", h.name)
			w.mark(h.member, true)
		}
	case AskDefragment:
		w.tidy.asked.Defragment = w.now
	case AskDisarm:
		w.tidy.asked.Disarm = w.now
	case AskLead:
		w.tidy.asked.MoveLeader, w.tidy.asked.Lead = w.now, "cp-9"
		if h != nil {
			w.tidy.asked.Lead = h.name
		}
	default:
		return false
	}
	w.calm = false // a leader may move because of it
	w.tell("%s", e.Kind)
	return true
}

// mark notes whether the data of a member take more than they need.
func (w tidier) mark(m *member, loose bool) {
	if w.tidy.loose == nil {
		w.tidy.loose, w.tidy.tight, w.tidy.busy = map[*member]bool{}, map[*member]bool{}, map[*member]time.Time{}
	}
	w.tidy.loose[m], w.tidy.tight[m] = loose, !loose
}

// isWanted: sizes are known, as the user or a person asks for a defragmentation.
func (w tidier) isWanted() bool { return w.setup.Tidy.Percent > 0 || !w.tidy.asked.Defragment.IsZero() }

// add is what can be seen of it but the sizes.
func (w tidier) add(o *plan.Observed) {
	if t := w.setup.Tidy; t.Percent > 0 {
		o.Policy.Defragment = plan.Defragmentation{FreePercent: t.Percent, MinSize: 50 << 20, Single: t.Single}
	}
	if o.Etcd.Requests = w.tidy.asked; o.Etcd.Requests != (plan.Requests{}) {
		o.Etcd.Disarmed, o.Etcd.LeaderMoved = w.space.disarmed, w.space.moved
	}
}

// size is what the data of a member take that do not fill its quota. They need 30 MiB.
func (w tidier) size(m *member) int64 {
	switch {
	case w.tidy.loose[m]:
		return 60 << 20
	case w.tidy.tight[m]:
		return 30 << 20
	}
	return 40 << 20
}

// defragmented lets a member have what it needs. In some worlds it stands still for a while, if the others are enough without it.
func (w tidier) defragmented(m *member) {
	w.mark(m, false)
	if running, all := w.voters(); w.setup.Tidy.Takes > 0 && !m.learner && all > 2 && running-1 > all/2 {
		w.hang(m)
		m.back = w.now.Add(w.setup.Tidy.Takes)
		w.tidy.busy[m] = m.back
	}
}

// isAsked: a person asked for something within the last hour.
func (w tidier) isAsked(at time.Time) bool { return !at.IsZero() && w.now.Sub(at) < time.Hour }

// isBusy: a host of the group comes, goes or is updated, as can be seen.
func (w tidier) isBusy(h *host) bool {
	return w.isOurs(h) && !h.unawaited && (h.deleting || h.isUpdating() || h.stage < up)
}

// judge holds a defragmentation without an alarm against the truth.
func (w tidier) judge(s plan.Step, m *member) {
	for other, until := range w.tidy.busy {
		if other != m && w.now.Before(until) && !other.removed {
			w.blame("%s, and that of %s is defragmented at the same time", s, other.host.name)
		}
	}
	if w.blinded || !w.isSeen() {
		return
	}
	if !w.isAsked(w.tidy.asked.Defragment) {
		w.judgeOfSpec(s, m)
	}
	switch running, all := w.voters(); {
	case w.tidy.tight[m]:
		w.blame("%s, whose data need what they take", s)
	case all > 1 && m == w.leader:
		w.blame("%s, which leads", s)
	case running < all:
		w.blame("%s, and %d of %d voters run", s, running, all)
	case w.count(w.isBusy) > 0:
		w.blame("%s, and a machine comes, goes or is updated", s)
	}
}

// judgeOfSpec: the spec wants a defragmentation that no person asked for, now, and the voter can be spared.
func (w tidier) judgeOfSpec(s plan.Step, m *member) {
	switch _, all := w.voters(); {
	case w.setup.Tidy.Percent == 0:
		w.blame("%s, which nobody asked for", s)
	case !w.tidy.loose[m]:
		w.blame("%s, whose data need what they take", s)
	case all == 2, all == 1 && !w.setup.Tidy.Single:
		w.blame("%s, and none of %d voters can be spared", s, all)
	case windowed(w).isClosed():
		w.blame("%s, outside of the windows", s)
	}
}
