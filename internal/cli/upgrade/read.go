package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/upgrade/updates"
)

// Read reads the upgrades in place of a cluster, the oldest first. Nodes whose upgrade belongs to no control plane's or
// MachineDeployment's stand each by itself.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey) ([]report.Upgrade, error) {
	of := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	var nodes upgradev1.NodeUpgradeList
	var controlPlanes upgradev1.ControlPlaneUpgradeList
	var deployments upgradev1.MachineDeploymentUpgradeList
	for _, list := range []client.ObjectList{&nodes, &controlPlanes, &deployments} {
		if err := c.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("listing the upgrades of cluster %s: %w", key, err)
		}
	}
	if err := dropForeign(ctx, c, key, &nodes); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes.Items, func(a, b upgradev1.NodeUpgrade) int {
		if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	var out []report.Upgrade
	for i := range controlPlanes.Items {
		u := &controlPlanes.Items[i]
		of := u.Spec.ControlPlane.Kind + " " + u.Spec.ControlPlane.Name
		out = append(out, upgradeOf(u, of, u.Spec.KubernetesVersion, u.Spec.MachinesRequireUpgrade, nodes.Items))
	}
	for i := range deployments.Items {
		u := &deployments.Items[i]
		of := "MachineDeployment " + u.Spec.MachineDeployment.Name
		out = append(out, upgradeOf(u, of, u.Spec.KubernetesVersion, u.Spec.MachinesRequireUpgrade, nodes.Items))
	}
	for i := range nodes.Items {
		if u := &nodes.Items[i]; standsAlone(u) {
			out = append(out, report.Upgrade{
				Name: u.Name, Of: "Machine " + u.Spec.Machine.Name, Version: u.Spec.KubernetesVersion, Paused: paused(u),
				Nodes: []report.UpgradedNode{upgradedNode(u)},
			})
		}
	}
	return out, nil
}

// dropForeign drops the NodeUpgrades whose Machine belongs to another Cluster than their label names: the controller refuses them.
func dropForeign(ctx context.Context, c client.Reader, key client.ObjectKey, nodes *upgradev1.NodeUpgradeList) error {
	kept := nodes.Items[:0]
	for _, u := range nodes.Items {
		m := &clusterv1.Machine{}
		err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: u.Spec.Machine.Name}, m)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Machine %s of NodeUpgrade %s: %w", u.Spec.Machine.Name, u.Name, err)
		}
		if err != nil || m.Spec.ClusterName == key.Name {
			kept = append(kept, u)
		}
	}
	nodes.Items = kept
	return nil
}

// standsAlone reports whether a node's upgrade belongs to no control plane's or MachineDeployment's: a person made it, or the Runtime
// Extension for Cluster API's controllers, whose it is by its Machine.
func standsAlone(u *upgradev1.NodeUpgrade) bool {
	owner := metav1.GetControllerOf(u)
	return owner == nil || owner.Kind == "Machine"
}

// upgradeOf describes the upgrade of several nodes, from the upgrades of those that have begun.
func upgradeOf(u client.Object, of, version string, machines []upgradev1.MachineReference, nodes []upgradev1.NodeUpgrade) report.Upgrade {
	out := report.Upgrade{Name: u.GetName(), Of: of, Version: version, Paused: paused(u)}
	begun := map[string]bool{}
	for i := range nodes {
		if n := &nodes[i]; metav1.IsControlledBy(n, u) {
			begun[n.Spec.Machine.Name] = true
			out.Nodes = append(out.Nodes, upgradedNode(n))
		}
	}
	for _, m := range machines {
		if !begun[m.Name] {
			out.Nodes = append(out.Nodes, report.UpgradedNode{Machine: m.Name})
		}
	}
	return out
}

func paused(o client.Object) bool {
	_, paused := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// upgradedNode describes the upgrade of one node by its conditions.
func upgradedNode(n *upgradev1.NodeUpgrade) report.UpgradedNode {
	out := report.UpgradedNode{
		Name: n.Name, Machine: n.Spec.Machine.Name, Completed: ptr.Deref(n.Status.Completed, false),
		Failed: n.Status.FailedStep, Changed: n.Status.FailedStep != "" && updates.Changed(n), Created: n.CreationTimestamp.Time,
	}
	if c := meta.FindStatusCondition(n.Status.Conditions, upgradev1.Progressing); c != nil {
		out.Reason, out.Message = c.Reason, c.Message
		if c.Status == metav1.ConditionFalse {
			out.Ended = c.LastTransitionTime.Time
		}
	}
	for _, name := range n.Status.Steps {
		step := report.UpgradeStep{Name: name}
		if c := meta.FindStatusCondition(n.Status.Conditions, name); c != nil {
			step.Done, step.Since = c.Status == metav1.ConditionTrue, c.LastTransitionTime.Time
			step.Running = c.Status == metav1.ConditionFalse && c.Reason == upgradev1.Running
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}
