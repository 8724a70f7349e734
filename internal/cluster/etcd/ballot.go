package etcd

import "github.com/quorate/quorate/internal/core/quorum"

// Ballot is how many members vote, and how many of them are healthy.
type Ballot struct{ Healthy, Voters int }

// NewBallot counts voters; those that are credited count as healthy, whatever they answer. credited may be nil.
func NewBallot(voters []quorum.Voter, credited func(id string) bool) Ballot {
	b := Ballot{Voters: len(voters)}
	for _, v := range voters {
		if v.Healthy || credited != nil && credited(v.ID) {
			b.Healthy++
		}
	}
	return b
}

// Needed is how many voters must be healthy.
func (b Ballot) Needed() int { return quorum.Majority(b.Voters) }

// Spare is how many more healthy voters may fail before the quorum is lost; negative by as many as are missing.
func (b Ballot) Spare() int { return b.Healthy - b.Needed() }
