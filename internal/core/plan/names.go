package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A machine's name is never given twice, for an etcd member's name, a Node's and a host's follow from it. What is recorded of names given
// before may be older than the cluster, as after a backup of the management cluster was restored: then it is the cluster itself that knows
// the newer ones.

// create is the step that makes the next machine, or finishes the one that was begun.
func (s *state) create() Step {
	name := s.Group.PartialCreate
	if name == "" || s.has(name) || s.isUsed(name) {
		name = s.newName()
	}
	return Step{Verb: Create, Machine: name, Number: Number(s.Want.NameFormat, name), Domain: s.emptiest()}
}

// newName returns the first unused name with a number above the highest. Each name in use rules out one number at most, so that the search
// ends.
func (s *state) newName() string {
	n := s.highest() + 1
	for range s.namesSeen() {
		if name := s.nameOf(n); !s.has(name) && !s.isUsed(name) {
			return name
		}
		n++
	}
	return s.nameOf(n)
}

// nameOf returns the name of the machine with a number.
func (s *state) nameOf(n int) string { return fmt.Sprintf(s.Want.NameFormat, strconv.Itoa(n)) }

// longestNumber is the highest number in a name that counts as one of ours: others
// end their machines' names in dates, or at random.
const longestNumber = 99999

// Counts reports whether a number in a name may be one that a machine of the group got: no machine has 0 or less, and others have more than
// 99999.
func Counts(number int) bool { return number > 0 && number <= longestNumber }

// highest is the highest number that any machine has or had, as far as anything tells.
func (s *state) highest() int {
	highest := s.Group.LastMachine
	for _, name := range s.namesSeen() {
		if n := Number(s.Want.NameFormat, name); Counts(n) {
			highest = max(highest, n)
		}
	}
	return highest
}

// HighestNumber is the highest number in a name that a machine of the group has or had, or that anything else in the cluster has.
func HighestNumber(o Observed) int { return newState(o).highest() }

// namesSeen are the names of machines, and those that others have.
func (s *state) namesSeen() []string {
	seen := s.namesUsed()
	for _, m := range s.machines {
		seen = append(seen, m.Name)
	}
	return seen
}

// namesUsed are the names that others than the group's machines have, of whatever kind, and those that these have in the cluster.
func (s *state) namesUsed() []string {
	used := slices.Concat(s.Cluster.Names, s.Workers)
	for _, m := range s.machines {
		used = append(used, m.Host)
	}
	for _, m := range s.Uncontrolled {
		used = append(used, m.Name)
	}
	for _, m := range s.Etcd.Members {
		used = append(used, m.Name)
	}
	return used
}

// isUsed reports whether a name means something already that is none of the group's machines.
func (s *state) isUsed(name string) bool { return slices.Contains(s.namesUsed(), name) }

// Number reads the number in the name of a machine that is named by format, such as
// "demo-%s"; 0, which no machine has, where there is none.
func Number(format, name string) int {
	before, after, _ := strings.Cut(format, "%s")
	middle, starts := strings.CutPrefix(name, before)
	middle, ends := strings.CutSuffix(middle, after)
	if !starts || !ends {
		return 0
	}
	n, err := strconv.Atoi(middle)
	if err != nil { // no number, or one that is too long, of which Atoi returns the largest that fits
		return 0
	}
	return n
}
