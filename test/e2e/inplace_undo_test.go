//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

// inplaceUndo: the newer version serves, and then kubeadm cannot do the rest. The node is put back with all that was written meanwhile, and
// gets the newer version when the cause is gone and a person has it tried again.
//
//quorate:shows kubernetes in-place older>newer
func inplaceUndo(t *testing.T, e *environment) {
	const name, missing = "inundo", "kubelet-config"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older)
	before := uids(e.machineObjects(t, name))
	c, _ := e.workload(t, name)
	kept, err := c.CoreV1().ConfigMaps("kube-system").Get(context.Background(), missing, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().ConfigMaps("kube-system").Delete(context.Background(), missing, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.putsBack(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Status.NodeInfo.KubeletVersion != older {
		t.Errorf("after it was put back: %+v, %v", nodes, err)
	}
	e.quorate(t, "upgrade", "rollback", name)
	eventually(t, "the version that the machine has is wanted, and nothing else", patience, func() string {
		if kcp := e.controlPlane(t, name); kcp.Spec.Version != older || kcp.Status.Plan.Reason != "AsWanted" {
			return kcp.Spec.Version + " is wanted: " + kcp.Status.Plan.Message
		}
		return ""
	})
	e.putsBack(t, name)
	kept.ResourceVersion, kept.UID = "", ""
	if _, err := c.CoreV1().ConfigMaps("kube-system").Create(context.Background(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, "upgrade", "retry", name)
	eventually(t, "the machine says the newer version", 2*patience, func() string {
		if m := e.machineObjects(t, name)[0]; m.Spec.Version != newer {
			return m.Spec.Version + ": " + e.controlPlane(t, name).Status.Plan.Message
		}
		return ""
	})
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	e.isVersion(t, name, newer)
	if after := uids(e.machineObjects(t, name)); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: upgraded in place they stay", before, after)
	}
	e.takeDown(t, name)
}

// putsBack wants the newer version in place for a single machine on which it fails in the end, and waits until the node runs the older one
// again.
func (e *environment) putsBack(t *testing.T, name string) {
	t.Helper()
	e.written(t, name, func() {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Version, kcp.Spec.InPlace.Policy = newer, controlplanev1.InPlaceOnly
		})
		eventually(t, "the node was put back", 3*patience, func() string {
			for _, u := range e.nodeUpgrades(t, name) {
				p := meta.FindStatusCondition(u.Status.Conditions, upgradev1.Progressing)
				if p == nil || p.Reason != upgradev1.RolledBack {
					continue
				}
				if u.Status.FailedStep != string(steps.Finish) || !strings.Contains(p.Message, "kubeadm upgrade apply") {
					t.Errorf("step %s failed: %s", u.Status.FailedStep, p.Message)
				}
				if swap := meta.FindStatusCondition(u.Status.Conditions, string(steps.Swap)); swap == nil || swap.Reason != upgradev1.RolledBack ||
					!strings.Contains(swap.Message, "it was undone") {
					t.Errorf("the newer version never served: %+v", swap)
				}
				t.Logf("it says: %s", p.Message)
				return ""
			}
			return e.controlPlane(t, name).Status.Plan.Message
		})
		eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	})
}
