package observe

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Quorate reads an API server's certificate when it is first seen healthy, and again once a day. While that
// fails it retries after a minute, then after twice as long each time, up to an hour.
const (
	expiryAge       = 24 * time.Hour
	expiryRetry     = time.Minute
	expiryRetryMost = time.Hour
	// expiryPutOff is how long one is put off that could not be asked.
	expiryPutOff = 30 * time.Second
)

// Expiries are when the certificates of one group's API servers expire, by the UIDs of
// their Machines. They are asked for in the background: no turn waits for them. The zero value is ready for use.
type Expiries struct {
	mu sync.Mutex
	of map[types.UID]*expiry
}

// expiry is what is known of one API server's certificate.
type expiry struct {
	// end is when it expires; zero: not known.
	end time.Time
	// due is when to ask next; asking: an answer is awaited.
	due      time.Time
	asking   bool
	failures int
	// recorded: the annotation was seen on the KubeadmConfig.
	recorded bool
}

// Begin reports whether the API server of a Machine is to be asked now; then Done or PutOff must follow.
func (e *Expiries) Begin(uid types.UID, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[types.UID]*expiry{}
	}
	if e.of[uid] == nil {
		e.of[uid] = &expiry{}
	}
	one := e.of[uid]
	if one.asking || now.Before(one.due) {
		return false
	}
	one.asking = true
	return true
}

// Done notes what came of asking. A date that was known stays when the next answer fails.
func (e *Expiries) Done(uid types.UID, end time.Time, err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.of[uid]
	if one == nil {
		return // the Machine is gone
	}
	one.asking = false
	if err != nil {
		one.due = now.Add(min(expiryRetry<<min(one.failures, 6), expiryRetryMost))
		one.failures++
		return
	}
	one.end, one.due, one.failures = end, now.Add(expiryAge), 0
}

// PutOff lets an API server be asked later that could not be asked now.
func (e *Expiries) PutOff(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[uid]; one != nil {
		one.asking, one.due = false, now.Add(expiryPutOff)
	}
}

// End is when the certificate of a Machine's API server expires; zero: not known.
func (e *Expiries) End(uid types.UID) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[uid]; one != nil {
		return one.end
	}
	return time.Time{}
}

// Note notes whether the annotation is on the KubeadmConfig, and reports whether it is to be written.
// Without it the certificate was renewed, and is read again.
func (e *Expiries) Note(uid types.UID, recorded bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.of[uid]
	if one == nil {
		return false
	}
	taken := one.recorded && !recorded
	if taken {
		*one = expiry{asking: one.asking}
	}
	one.recorded = recorded
	return !recorded && !taken
}

// Only forgets all Machines but these.
func (e *Expiries) Only(machines []*clusterv1.Machine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid := range e.of {
		if !slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return m.UID == uid }) {
			delete(e.of, uid)
		}
	}
}
