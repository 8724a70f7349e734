package observe

import (
	"context"
)

// Slots limit how many turns begin while others work. All of them read and write in one management cluster: where many write at once,
// watches fall behind what is written, and all controllers, Cluster API's own first, write to states that are gone. A turn that
// waits for others than the management cluster gives its slot away, so that a cluster that does not answer delays no other group.
// Afterwards it goes on at once, with a slot or without, since what it has seen must not grow old. Nil: there is no limit.
type Slots chan struct{}

// NewSlots returns slots for that many turns.
func NewSlots(turns int) Slots { return make(Slots, turns) }

// slot is the one of a turn.
type slot struct {
	of   Slots
	held bool
}

type slotKey struct{}

// Enter waits for a slot, and returns the context of the turn that has it, and how it is left. A turn whose context ends while it waits has
// none.
func (s Slots) Enter(ctx context.Context) (context.Context, func()) {
	if s == nil {
		return ctx, func() {}
	}
	own := &slot{of: s}
	select {
	case s <- struct{}{}:
		own.held = true
	case <-ctx.Done():
	}
	return context.WithValue(ctx, slotKey{}, own), own.give
}

func (s *slot) give() {
	if s.held {
		s.held = false
		<-s.of
	}
}

// Aside does what waits for others than the management cluster. ctx is the turn's own.
func Aside(ctx context.Context, do func()) {
	own, has := ctx.Value(slotKey{}).(*slot)
	if has {
		own.give()
	}
	do()
	if !has {
		return
	}
	select {
	case own.of <- struct{}{}:
		own.held = true
	default:
	}
}
