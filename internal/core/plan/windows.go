package plan

import (
	"strings"
	"time"
)

// Window is whether changes of machines may begin now, and when.
type Window struct {
	// Closed says why they may not; empty: they may.
	Closed string `json:"closed,omitempty"`
	// Opens is when they may, where they may not now; zero: not before the spec changes.
	Opens time.Time `json:"opens,omitzero"`
	// Closes is until when they may, in the window that is open or opens next; zero: there is no end.
	Closes time.Time `json:"closes,omitzero"`
}

// whyClosed says why changes may not begin, and until when.
func (w Window) whyClosed() string {
	if w.Opens.IsZero() {
		return w.Closed
	}
	return w.Closed + ", until " + timeText(w.Opens)
}

// OutsideWindow is the reason of a wait until a change may begin.
const OutsideWindow = "OutsideWindow"

// isClosed reports whether no machine may begin to be replaced or changed in place because of the spec now.
func (w Window) isClosed() bool { return w.Closed != "" }

// opening is what the windows of a group mean for what is to be changed.
type opening struct{ *state }

// wait waits until changes may begin. It is told last, so that all else goes on.
func (s opening) wait() opinion {
	window := s.Group.Window
	todo := s.those(func(m *machine) bool { return s.isReplaced(m) || s.isChangedInPlace(m) })
	if !window.isClosed() || len(todo) == 0 {
		return pass("nothing waits for a window")
	}
	var names []string
	for _, m := range todo {
		names = append(names, m.Name)
	}
	return wait(OutsideWindow, "%s to be replaced or changed in place (%s), and none may begin now: %s",
		count(len(todo), "machine"), strings.Join(names, ", "), window.whyClosed())
}
