package group

import (
	"time"
)

// Changes tells when something last changed, as it was seen. The zero value is ready for use.
type Changes struct {
	seen string
	// At is when it was first seen to have changed; zero: it has not.
	At time.Time
}

// Look compares with what was seen last. What is seen first has not changed.
func (c *Changes) Look(now string, at time.Time) {
	if c.seen != "" && c.seen != now {
		c.At = at
	}
	c.seen = now
}
