package observe

import (
	"time"
)

// TokensDropped is which machines of a group had joined, or went, when the bootstrap tokens of all were looked through, and when that was;
// and when some were renewed.
type TokensDropped struct {
	Useless []string
	At      time.Time
	Renewed time.Time
}
