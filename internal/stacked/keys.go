package stacked

import (
	"errors"
	"sync"
)

// mostKeyMakers is how many turns may make keys at the same time. RSA keys take a processor for up to a second, which
// all other turns would wait for.
const mostKeyMakers = 2

// errKeysWait ends a turn that would make keys while enough others do.
var errKeysWait = errors.New("enough keys are being made at the moment")

// keyMakers counts the turns that make keys. The zero value is ready for use.
type keyMakers struct {
	mu  sync.Mutex
	now int
}

// begin reports whether another turn may make keys; end must follow then.
func (k *keyMakers) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now >= mostKeyMakers {
		return false
	}
	k.now++
	return true
}

func (k *keyMakers) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
}
