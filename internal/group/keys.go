package group

import (
	"errors"
)

// errKeysWait ends a turn that would make keys while enough others do.
var errKeysWait = errors.New("enough keys are being made at the moment")
