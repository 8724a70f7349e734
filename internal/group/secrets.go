package group

import (
	"errors"
)

// errRested has a turn that would do something after a rest begin again: what is believed for longer at rest is read again before.
var errRested = errors.New("what was read before a rest is read again")
