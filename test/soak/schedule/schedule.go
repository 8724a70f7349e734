// Package schedule draws what a run of `make soak` does: which operation meets which fault, when, and whom it hits. It is a pure function
// of the seed, so that a seed repeats the choice.
package schedule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Role is which machine a fault hits.
type Role string

// The roles.
const (
	Leader   Role = "leader"
	Follower Role = "follower"
)

// Round is an operation that meets a fault.
type Round struct {
	Operation string
	Fault     string
	// Target is which machine the fault hits, of those that are there when it comes.
	Target Role
	// Which chooses among followers.
	Which int
	// Delay is how long after the operation has begun the fault comes.
	Delay time.Duration
	// Lasts is how long the fault lasts, where it ends by itself.
	Lasts time.Duration
}

// longestDelay and the others bound what is drawn.
const (
	longestDelay  = 12 * time.Second
	shortestFault = 8 * time.Second
	longestFault  = 25 * time.Second
)

// Draw returns rounds in which each pair of an operation and a fault is met once before any is met again, and each operation and each fault
// as early as possible. The same seed and names give the same rounds, and more rounds begin with those that fewer have.
func Draw(seed uint64, rounds int, operations, faults []string) []Round {
	if len(operations) == 0 || len(faults) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 47))
	var all []Round
	for len(all) < rounds {
		all = append(all, cycle(r, slices.Clone(operations), slices.Clone(faults))...)
	}
	return all[:max(rounds, 0)]
}

// cycle returns all pairs once: both lists go around in an order of their own, and each time that both end together, one of them is
// moved on.
func cycle(r *rand.Rand, operations, faults []string) []Round {
	r.Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	var all []Round
	n, m := len(operations), len(faults)
	for i := range n * m {
		moved := i / (n * m / common(n, m))
		round := Round{
			Operation: operations[i%n], Fault: faults[(i+moved)%m], Target: Follower, Which: r.IntN(1 << 16),
			Delay: time.Duration(r.Int64N(int64(longestDelay))),
			Lasts: shortestFault + time.Duration(r.Int64N(int64(longestFault-shortestFault))),
		}
		if r.IntN(2) == 0 {
			round.Target = Leader
		}
		all = append(all, round)
	}
	return all
}

// common returns the greatest common divisor.
func common(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
