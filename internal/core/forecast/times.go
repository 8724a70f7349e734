package forecast

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Times is how long what happens by itself takes, for estimates. It does not change which steps come.
type Times struct {
	// Join is from the creation of a machine until it is all that it should be.
	Join time.Duration
	// Drain is from the request to delete a machine until its hook is due, Leave from the hook's release until it is gone.
	Drain, Leave time.Duration
	// Update is how long an update in place takes.
	Update time.Duration
	// Backup is how long it takes until a backup is stored and verified.
	Backup time.Duration
	// Step is how long a step itself takes.
	Step time.Duration
}

// DefaultTimes are those of a cluster of which none are known: local machines, artifacts cached.
func DefaultTimes() Times {
	return Times{
		Join: 35 * time.Second, Drain: 5 * time.Second, Leave: 5 * time.Second, Update: 25 * time.Second, Backup: 15 * time.Second,
		Step: time.Second,
	}
}

// TimesOf are the times of a cluster of which it is known how long steps took until their effect was there, by their verbs. That of Create
// is until a machine was complete, of Delete until one was gone, of ReleaseHook the part of that which came after the hook's release, of
// UpdateInPlace until it was recorded. What is not known is as in DefaultTimes.
func TimesOf(took map[plan.Verb]time.Duration) Times {
	t := DefaultTimes()
	if d := took[plan.Create]; d > 0 {
		t.Join = d
	}
	if d := took[plan.UpdateInPlace]; d > 0 {
		t.Update = d
	}
	if d := took[plan.ReleaseHook]; d > 0 {
		t.Leave = d
	}
	if d := took[plan.Delete]; d > t.Leave {
		t.Drain = d - t.Leave
	}
	return t
}
