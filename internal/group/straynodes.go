package group

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// mostStray is how many Nodes a message names.
const mostStray = 3

// refuseStrayNodes begins nothing while a control plane node runs that no Machine has. With etcd on the machines a member without Machine tells of it; with etcd
// elsewhere only the Node does.
func (t *Turn) refuseStrayNodes() {
	g := t.Facts.Group
	if t.Facts.Etcd.Ours() || t.Nodeless || g.Deleting || g.Paused || !t.View.Reachable {
		return
	}
	stray := strayNodes(t.View, t.Objects(), t.Others, t.Facts.Workers)
	if len(stray) == 0 {
		return
	}
	names := strings.Join(stray[:min(len(stray), mostStray)], ", ")
	if more := len(stray) - mostStray; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	t.Refuse(plan.Refusal{
		Reason: "NodeWithoutMachine", Replaceable: true,
		Message: fmt.Sprintf("no Machine has control plane node %s: delete the Node if its machine is gone, or take the label %s off it",
			names, machine.NodeLabel),
	})
}

// strayNodes are the control plane nodes that report and belong to none of the Machines, sorted; none while a Machine has no Node yet, which may be one of them.
func strayNodes(view workload.View, ours, others []*clusterv1.Machine, workers []string) []string {
	all := slices.Concat(ours, others)
	found := machine.Nodes(all, view.Nodes)
	taken := map[string]bool{}
	for _, m := range all {
		node := found[m.Name]
		if node == nil && m.DeletionTimestamp.IsZero() {
			return nil
		}
		if node != nil {
			taken[node.Name] = true
		}
	}
	var stray []string
	for i := range view.Nodes {
		node := &view.Nodes[i]
		_, isControlPlane := node.Labels[machine.NodeLabel]
		if isControlPlane && !taken[node.Name] && machine.NodeReady(node) == corev1.ConditionTrue && !slices.Contains(workers, node.Annotations[clusterv1.MachineAnnotation]) {
			stray = append(stray, node.Name)
		}
	}
	slices.Sort(stray)
	return stray
}
