package observe

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
)

// mostNames is how many names of others are kept: those with the highest numbers decide.
const mostNames = 16

// addNames adds the names of Nodes that no new machine may get: those of Nodes that are none of the group's machines'. After a
// backup of the management cluster was restored, they are of machines that it does not know.
func (t wants) addNames() {
	names := t.Facts.Cluster.Names
	for i := range t.Inside.Nodes {
		name := t.Inside.Nodes[i].Name
		if !slices.ContainsFunc(t.Machines, func(m *Machine) bool { return m.Node != nil && m.Node.Name == name }) {
			names = append(names, name)
		}
	}
	t.keepNames(names)
}

// addNamesOf adds the names of objects that belong to no machine of the group, and that no machine is begun with.
func (t wants) addNamesOf(made []client.Object) {
	names := t.Facts.Cluster.Names
	for _, o := range made {
		isBegun := o.GetDeletionTimestamp().IsZero() && Unclaimed(o.GetOwnerReferences(), t.Object)
		if !isBegun && t.Machine(o.GetName()) == nil {
			names = append(names, o.GetName())
		}
	}
	t.keepNames(names)
}

// keepNames keeps, of names that are in use, those that a new machine could get. Names with dates, or made up, are dropped first.
func (t wants) keepNames(names []string) {
	format := t.Facts.Want.NameFormat
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return plan.Number(format, name) == 0 })
	slices.SortFunc(names, func(a, b string) int {
		x, y := plan.Number(format, a), plan.Number(format, b)
		return cmp.Or(-cmp.Compare(rank(x), rank(y)), -cmp.Compare(x, y), strings.Compare(a, b))
	})
	names = slices.Compact(names)
	names = names[:min(len(names), mostNames)]
	slices.SortFunc(names, strings.Compare)
	t.Facts.Cluster.Names = names
}

// rank is 1 for a number that decides what the next one is, and 0 for any other.
func rank(number int) int {
	if plan.Counts(number) {
		return 1
	}
	return 0
}
