package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// mostNamed is how many Nodes or Pods a message names.
const mostNamed = 3

// someOf names the first of some objects, and counts the others.
func someOf(names []string) string {
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// refuseStrayNodes refuses to begin anything while a control plane node reports that has no Machine. With etcd on the machines its
// member is found; with etcd elsewhere only the Node shows it.
func (t wants) refuseStrayNodes() {
	g := t.Facts.Group
	if t.Facts.Etcd.Ours() || g.Deleting || g.Paused || !t.Inside.Reachable {
		return
	}
	stray := t.readyStrays()
	if len(stray) == 0 {
		return
	}
	t.Refuse(plan.Refusal{
		Reason: "NodeWithoutMachine", Replaceable: true,
		Message: fmt.Sprintf("no Machine has control plane node %s: delete the Node if its machine is gone, or take the label %s off it",
			someOf(stray), machine.NodeLabel),
	})
}

// readyStrays names the Nodes without a Machine that are ready, in order.
func (t wants) readyStrays() []string {
	var stray []string
	for _, node := range t.StrayNodes() {
		if machine.NodeReady(node) == corev1.ConditionTrue {
			stray = append(stray, node.Name)
		}
	}
	slices.Sort(stray)
	return stray
}

// StrayNodes are the Nodes of control planes that no Machine has; none while a machine of the group has no Node that is known, which may be
// one of them.
func (t *View) StrayNodes() []*corev1.Node {
	taken := map[string]bool{}
	for _, m := range t.Facts.Machines {
		if m.Host == "" {
			return nil
		}
		taken[m.Host] = true
	}
	return slices.DeleteFunc(t.otherNodes(taken), func(node *corev1.Node) bool {
		of := node.Annotations[clusterv1.MachineAnnotation]
		return t.Other(of) != nil || slices.Contains(t.Facts.Workers, of)
	})
}
