package observe

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// MemberTimes remembers since when each member of an etcd cluster is as it is. The zero value is ready for use.
type MemberTimes struct {
	Seen map[string]Sighting
}

// Sighting is how a member looked, and since when.
type Sighting struct {
	Learner, Named bool
	// Placed: its machine is known. One that is missing from one look only is looked at again.
	Placed bool
	Health plan.Health
	Since  time.Time
}

// is reports whether a member looks the same in both, whenever that was.
func (s Sighting) is(other Sighting) bool {
	s.Since = other.Since
	return s == other
}

// Stamp writes into each member since when it is as it is. Members that are no
// longer in the list are forgotten: an ID that returns is new.
func (t *MemberTimes) Stamp(members []plan.Member, now time.Time) {
	seen := make(map[string]Sighting, len(members))
	for i := range members {
		m := &members[i]
		s := Sighting{Learner: m.Learner, Named: m.Name != "", Placed: m.Machine != "", Health: m.Health, Since: now}
		if old, ok := t.Seen[m.ID]; ok && old.is(s) {
			s.Since = old.Since
		}
		seen[m.ID] = s
		m.Since = s.Since
	}
	t.Seen = seen
}
