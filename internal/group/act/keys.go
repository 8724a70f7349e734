package act

import (
	"sync"
)

// MostKeyMakers is how many turns may make keys at the same time. RSA keys take a processor for up to a second, which
// all other turns would wait for.
const MostKeyMakers = 2

// KeyMakers counts the turns that make keys. The zero value is ready for use.
type KeyMakers struct {
	mu  sync.Mutex
	now int
}

// Begin reports whether another turn may make keys; End must follow then.
func (k *KeyMakers) Begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now >= MostKeyMakers {
		return false
	}
	k.now++
	return true
}

// End lets another turn make keys.
func (k *KeyMakers) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
}
