package observe

import (
	"context"
	"testing"
	"time"
)

// TestSlots: a turn waits while as many others work as may, and does not where one of them waits for somebody else.
func TestSlots(t *testing.T) {
	slots := NewSlots(1)
	first, leave := slots.Enter(t.Context())
	entered := make(chan func())
	begin := func() {
		go func() {
			_, leave := slots.Enter(t.Context())
			entered <- leave
		}()
	}
	begin()
	select {
	case <-entered:
		t.Fatal("a second turn works beside the first: there is one slot")
	case <-time.After(20 * time.Millisecond):
	}
	var leaveSecond func()
	Aside(first, func() { leaveSecond = <-entered }) // it would never end if the slot were kept
	if len(slots) != 1 {
		t.Fatalf("%d slots are taken, want that of the second turn", len(slots))
	}
	leave() // it has gone on without a slot, and has none to give
	begin()
	select {
	case <-entered:
		t.Fatal("a third turn works beside the second: there is one slot")
	case <-time.After(20 * time.Millisecond):
	}
	leaveSecond()
	leaveThird := <-entered
	leaveThird()
	if len(slots) != 0 {
		t.Errorf("%d slots are taken by nobody", len(slots))
	}
}

// TestSlotsEnd: a turn whose context ends while it waits takes no slot, and gives none back.
func TestSlotsEnd(t *testing.T) {
	slots := NewSlots(1)
	_, leave := slots.Enter(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, leaveEnded := slots.Enter(ended)
	leaveEnded()
	if len(slots) != 1 {
		t.Fatalf("%d slots are taken, want 1", len(slots))
	}
	Aside(ctx, func() {})
	leave()
	if len(slots) != 0 {
		t.Errorf("%d slots are taken by nobody", len(slots))
	}
}

// TestNoSlots: without a limit nothing waits.
func TestNoSlots(t *testing.T) {
	var slots Slots
	ctx, leave := slots.Enter(t.Context())
	defer leave()
	did := false
	Aside(ctx, func() { did = true })
	if !did {
		t.Error("nothing was done")
	}
}
