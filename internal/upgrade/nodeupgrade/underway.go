package nodeupgrade

import "sync"

// underway counts what is under way for each key, up to a limit. Its lock is never held while anything is read or written elsewhere: a
// cluster that answers slowly delays no other. The zero value is ready for use.
type underway[K comparable] struct {
	mu    sync.Mutex
	count map[K]int
}

// begin reports whether one more may begin for a key that may have limit of them; end must follow then.
func (u *underway[K]) begin(key K, limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[key] >= limit {
		return false
	}
	if u.count == nil {
		u.count = map[K]int{}
	}
	u.count[key]++
	return true
}

// end ends one that has begun.
func (u *underway[K]) end(key K) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[key]--; u.count[key] <= 0 {
		delete(u.count, key)
	}
}
