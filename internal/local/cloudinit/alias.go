package cloudinit

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The most values that data may stand for, with each alias counted as what it repeats, and the most bytes in them. Without
// aliases bootstrap data cannot have as many: it is at most a megabyte.
const (
	valueLimit = 1 << 20
	byteLimit  = allLimit
)

// extent is how many values a value stands for, and how many bytes they have.
type extent struct{ values, bytes int }

// checkAliases refuses data whose aliases repeat too much, or themselves.
func checkAliases(root *yaml.Node) error {
	m := measure{known: map[*yaml.Node]extent{}, open: map[*yaml.Node]bool{}}
	all, err := m.of(root)
	if err == nil && (all.values > valueLimit || all.bytes > byteLimit) {
		err = &SyntaxError{Reason: fmt.Sprintf("aliases repeat too much: the data stands for more than %d values or %d MiB", valueLimit,
			byteLimit>>20)}
	}
	return err
}

type measure struct {
	known map[*yaml.Node]extent
	open  map[*yaml.Node]bool // those that are being measured: an alias of one repeats itself
}

func (m measure) of(n *yaml.Node) (extent, error) {
	if n.Kind == yaml.AliasNode {
		if m.open[n.Alias] {
			return extent{}, &SyntaxError{Line: n.Line, Reason: "the alias *" + n.Value + " contains itself"}
		}
		return m.of(n.Alias)
	}
	if e, ok := m.known[n]; ok {
		return e, nil
	}
	m.open[n] = true
	defer delete(m.open, n)
	sum := extent{values: 1, bytes: len(n.Value)}
	for _, child := range n.Content {
		e, err := m.of(child)
		if err != nil {
			return extent{}, err
		}
		// Sums stay far below what an int holds, however deep aliases of aliases are.
		sum.values, sum.bytes = min(sum.values+e.values, 2*valueLimit), min(sum.bytes+e.bytes, 2*byteLimit)
	}
	m.known[n] = sum
	return sum, nil
}
