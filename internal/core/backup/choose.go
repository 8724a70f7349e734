package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// mostBehind is how many entries of the log a member may lack and still counts as up to date. etcd itself refuses writes at 5000.
const mostBehind = 1000

// ErrJoining is the error of a choice that waits for a member which joins.
var ErrJoining = errors.New("a backup waits until it votes or is gone")

// Candidate is one member of etcd as the choice of a backup's source looks at it.
type Candidate struct {
	// ID is etcd's, and Name the member's.
	ID   uint64
	Name string
	// Learner reports whether it has no vote, Leader whether the others follow it.
	Learner, Leader bool
	// Healthy reports whether it answered for itself, follows a leader and reports no damage.
	Healthy bool
	// Index is the last committed entry that it knows, and Applied the last one that its data contains.
	Index, Applied uint64
}

// Choose returns the member that a backup is taken from: a healthy follower that is up to date, the one that is furthest; the only member
// if there is one. It refuses, with the reason, while a member joins and where no follower is fit.
func Choose(members []Candidate) (Candidate, error) {
	var newest uint64
	for _, m := range members {
		if m.Learner || m.Name == "" {
			return Candidate{}, fmt.Errorf("etcd member %s is joining; %w", cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)), ErrJoining)
		}
		if m.Healthy {
			newest = max(newest, m.Index)
		}
	}
	if len(members) == 0 {
		return Candidate{}, errors.New("no etcd member is known")
	}
	fit := slices.DeleteFunc(slices.Clone(members), func(m Candidate) bool {
		return !m.Healthy || m.Leader && len(members) > 1 || m.Applied+mostBehind < newest
	})
	if len(fit) == 0 {
		return Candidate{}, fmt.Errorf("none of %d etcd members is a healthy follower that is up to date", len(members))
	}
	return slices.MinFunc(fit, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Applied, a.Applied), cmp.Compare(a.ID, b.ID))
	}), nil
}
