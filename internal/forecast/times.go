package forecast

import "time"

// Times is how long what happens by itself takes, for estimates. It does not change which steps come.
type Times struct {
	// Join is from the creation of a machine until it is all that it should be.
	Join time.Duration
	// Drain is from the request to delete a machine until its hook is due, Leave from the hook's release until it is gone.
	Drain, Leave time.Duration
	// Update is how long an update in place takes.
	Update time.Duration
	// Step is how long a step itself takes.
	Step time.Duration
}

// DefaultTimes are those of a cluster of which none are known: local machines, artifacts cached.
func DefaultTimes() Times {
	return Times{Join: 35 * time.Second, Drain: 5 * time.Second, Leave: 5 * time.Second, Update: 25 * time.Second, Step: time.Second}
}
