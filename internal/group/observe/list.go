package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// Machines are the Machines of a cluster.
type Machines struct {
	// Ours are those that the group controls, the oldest first.
	Ours []*clusterv1.Machine
	// Others are the cluster's other control plane machines, by name.
	Others []*clusterv1.Machine
	// Workers are the names of all others, sorted.
	Workers []string
}

// ListMachines returns the Machines of the cluster that the group's object belongs to. selector selects those of its control
// plane; nil: those with the label for it.
func ListMachines(ctx context.Context, from client.Reader, of client.Object, cluster string, selector labels.Selector) (Machines, error) {
	all := &clusterv1.MachineList{}
	err := from.List(ctx, all, client.InNamespace(of.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	if err != nil {
		return Machines{}, fmt.Errorf("listing the Machines of cluster %s: %w", cluster, err)
	}
	isOther := machine.IsControlPlane
	if selector != nil {
		isOther = func(m *clusterv1.Machine) bool { return selector.Matches(labels.Set(m.Labels)) }
	}
	var list Machines
	for i := range all.Items {
		m := &all.Items[i]
		switch {
		case metav1.IsControlledBy(m, of):
			list.Ours = append(list.Ours, m)
		case selector == nil && machine.IsEtcd(m):
			// It outlives the control plane, which needs it to the end.
		case isOther(m):
			list.Others = append(list.Others, m)
		default:
			list.Workers = append(list.Workers, m.Name)
		}
	}
	slices.SortFunc(list.Ours, machine.Compare)
	slices.SortFunc(list.Others, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(list.Workers)
	return list, nil
}

// ListMachinePools returns the names of the cluster's MachinePools; none where that kind is not installed.
func ListMachinePools(ctx context.Context, from client.Reader, namespace, cluster string) ([]string, error) {
	all := &clusterv1.MachinePoolList{}
	err := from.List(ctx, all, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the MachinePools of cluster %s: %w", cluster, err)
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names, nil
}
