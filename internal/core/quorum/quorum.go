// Package quorum counts votes. It knows nothing of machines, of etcd's API or
// of what a vote is about; it knows that a store of several voters answers only
// while more than half of them do.
package quorum

// A Voter is one member of a replicated store that may vote.
type Voter struct {
	// ID tells voters apart.
	ID string
	// Healthy: it has proven that it answers. Whatever is not proven is not healthy.
	Healthy bool
}

// Majority returns how many of n voters must agree.
func Majority(n int) int { return n/2 + 1 }

// Healthy returns how many of the voters are healthy.
func Healthy(voters []Voter) int {
	healthy := 0
	for _, v := range voters {
		if v.Healthy {
			healthy++
		}
	}
	return healthy
}

// Has reports whether the healthy voters are a majority of all voters. No voter is no majority.
func Has(voters []Voter) bool { return Healthy(voters) >= Majority(len(voters)) }

// Spare returns how many more healthy voters may fail before the quorum is
// lost. It is negative by as many as are missing.
func Spare(voters []Voter) int { return Healthy(voters) - Majority(len(voters)) }

// Without returns the voters but the one with this ID. It leaves its argument alone.
func Without(voters []Voter, id string) []Voter {
	rest := make([]Voter, 0, len(voters))
	for _, v := range voters {
		if v.ID != id {
			rest = append(rest, v)
		}
	}
	return rest
}
