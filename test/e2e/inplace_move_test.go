//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// inplaceMove: the Clusters of a management cluster are moved away and back in the middle of an upgrade in place of one of them. It goes on
// in each, once for each node, under a client that writes.
//
//quorate:shows kubernetes in-place older>newer
func inplaceMove(t *testing.T, e *environment) {
	const home, name = "home", "inmove"
	e.up(t, home, "--replicas", "1")
	e.up(t, home, "--self-managed")
	e.up(t, name, "--replicas", "3", "--kubernetes-version", older)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 3))
	before := e.nodes(t, name)
	e.written(t, name, func() {
		e.quorate(t, "up", "--network", e.network, "--name", name, "--in-place=Only", "--kubernetes-version", newer, "--wait=false")
		eventually(t, "the first node is being upgraded", patience, e.upgrading(t, name, 1))
		e.up(t, home, "--self-managed=false")
		eventually(t, "the second node is being upgraded", 2*patience, e.upgrading(t, name, 2))
		e.up(t, home, "--self-managed")
		e.up(t, name)
		eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	})
	e.sameNodes(t, name, before)
	e.isVersion(t, name, newer)
	for _, u := range e.nodeUpgrades(t, name) {
		if !meta.IsStatusConditionTrue(u.Status.Conditions, upgradev1.Completed) {
			t.Errorf("the upgrade of %s: %+v", u.Spec.Machine.Name, u.Status)
		}
	}
	e.nothingLeft(t, name)
	e.takeDown(t, name)
	e.up(t, home, "--self-managed=false")
	e.takeDown(t, home)
}

// upgrading asks whether the upgrade of one node, the first or a later one, has begun on the node and has not ended, and those of other
// nodes have ended.
func (e *environment) upgrading(t *testing.T, name string, which int) func() string {
	return func() string {
		all := e.nodeUpgrades(t, name)
		open := slices.DeleteFunc(slices.Clone(all), func(u upgradev1.NodeUpgrade) bool {
			return meta.IsStatusConditionTrue(u.Status.Conditions, upgradev1.Completed)
		})
		if len(all) != which || len(open) != 1 {
			return fmt.Sprintf("%d upgrades, of which %d have not ended", len(all), len(open))
		}
		if p := meta.FindStatusCondition(open[0].Status.Conditions, upgradev1.Progressing); p == nil || p.Reason != upgradev1.Running {
			return fmt.Sprintf("%s: %+v", open[0].Spec.Machine.Name, p)
		}
		return ""
	}
}
