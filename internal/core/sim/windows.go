package sim

import (
	"math/rand"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where changes may begin in windows only.

// windowSalt keeps what is drawn of windows apart from what else is drawn of a seed.
const windowSalt = 0x51d0

// Windows are when changes may begin. internal/core/windows knows how that is told; here they come back at the same pace.
type Windows struct {
	// Every is how often a window opens, the first time First after the beginning, and Open how long each is; 0: there are none.
	Every, First, Open time.Duration
	// Frozen is before when nothing begins, after the beginning.
	Frozen time.Duration
}

// drawWindows has windows in some groups, and freezes some.
func (s *Setup) drawWindows(seed int64) {
	r := rand.New(rand.NewSource(seed ^ windowSalt))
	if r.Intn(6) > 0 {
		return
	}
	if r.Intn(4) > 0 {
		every := pick(r, 10*time.Minute, time.Hour, time.Hour, 24*time.Hour)
		s.Windows = Windows{Every: every, First: time.Duration(r.Int63n(int64(every))), Open: max(time.Minute, every/time.Duration(2+r.Intn(20)))}
	}
	if s.Windows.Every == 0 || r.Intn(3) == 0 {
		s.Windows.Frozen = time.Duration(r.Intn(7200)) * time.Second
	}
}

// at returns whether changes may begin at a time since the beginning, and when they may next.
func (s Windows) at(since time.Duration) plan.Window {
	opens := s.opens(max(since, s.Frozen))
	switch {
	case opens <= since:
		return plan.Window{}
	case since < s.Frozen:
		return plan.Window{Closed: "it is frozen", Opens: time.Time{}.Add(opens)}
	}
	return plan.Window{Closed: "it is outside of the windows", Opens: time.Time{}.Add(opens)}
}

// opens returns the first time, then or later, that is inside a window.
func (s Windows) opens(since time.Duration) time.Duration {
	if s.Every == 0 {
		return since
	}
	into := (since - s.First) % s.Every
	if into < 0 {
		into += s.Every
	}
	if into < s.Open {
		return since
	}
	return since + s.Every - into
}

// windowed is what windows mean for a world.
type windowed struct{ *World }

// isClosed: no change may begin now.
func (w windowed) isClosed() bool { return w.setup.Windows.at(w.now.Sub(w.start)).Closed != "" }

// add is what can be seen of windows.
func (w windowed) add(o *plan.Observed) {
	o.Group.Window = w.setup.Windows.at(w.now.Sub(w.start))
	if o.Group.Window.Closed != "" {
		o.Group.Window.Opens = w.start.Add(o.Group.Window.Opens.Sub(time.Time{}))
	}
}

// judge: outside of windows no host that works goes, or is changed, for a machine of another spec.
func (w windowed) judge(s plan.Step, fresh bool) {
	if !fresh || !w.isClosed() || w.deleting || !w.initialised {
		return
	}
	if what, begins := beginsChange(w.World, s); begins {
		w.blame("%s, %s, outside of the windows", s, what)
	}
}
