package group

import (
	"time"

	"github.com/quorate/quorate/internal/group/act"
)

// Turn is one turn of one group: what was seen of it, the way to write, and how the turns before it went.
type Turn struct {
	*act.Writer
	*Controller
	past *past
	// retell is when what was not written yet must be; 0: all was.
	retell time.Duration
}
