//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// freezeDelete: of three machines one freezes, a person deletes another, and then marks the frozen one. The
// one that is deleted cannot be spared while the frozen one counts, and must not hold up its repair.
func freezeDelete(t *testing.T, e *environment) {
	const name = "tango"
	e.up(t, name, "--replicas", "3")
	all := e.machines(t, name)
	leader := e.leader(t, all)
	others := slices.DeleteFunc(slices.Clone(all), func(m string) bool { return m == leader })
	frozen, deleted := others[0], others[1]
	e.observed(t, name, "Quorate", func() {
		start := time.Now()
		e.quorate(t, "machine", "pause", frozen)
		deleteMachine(t, e, deleted)
		e.mark(t, frozen)
		eventually(t, "the frozen and the deleted machine are gone", patience, func() string {
			for _, m := range e.machines(t, name) {
				if m == frozen || m == deleted {
					return m + " is there: " + e.controlPlane(t, name).Status.Plan.Message
				}
			}
			return ""
		})
		eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
		eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
		t.Logf("FIGURE one frozen, another deleted, the frozen one marked, until all healthy: %.1f s", time.Since(start).Seconds())
	})
	e.takeDown(t, name)
}

// mark asks for a machine to be replaced, as a person does.
func (e *environment) mark(t *testing.T, name string) {
	t.Helper()
	c, m := e.management(t), &clusterv1.Machine{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
		t.Fatal(err)
	}
	before := m.DeepCopy()
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
	if err := c.Patch(context.Background(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// statusLost: the status of the control plane and of its machines is erased in the middle of a rollout and of a repair,
// as clusterctl move and restored backups do, and all ends as if it had not been. No second cluster is initialised.
func statusLost(t *testing.T, e *environment) {
	const name = "uniform"
	e.up(t, name, "--replicas", "3")
	before := e.machines(t, name)
	uid := e.clusterUID(t, name)
	e.observed(t, name, "Quorate, whose status was erased,", func() {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
		})
		eventually(t, "the rollout has begun", patience, func() string {
			if now := e.machines(t, name); slices.Equal(now, before) {
				return e.controlPlane(t, name).Status.Plan.Message
			}
			return ""
		})
		e.eraseStatus(t, name)
		e.replaced(t, name, before)
		eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))

		broken := e.machines(t, name)[0]
		e.quorate(t, "machine", "stop", broken)
		e.mark(t, broken)
		eventually(t, "the repair has begun", patience, func() string {
			if e.controlPlane(t, name).Status.LastRemediation.Machine == "" {
				return e.controlPlane(t, name).Status.Plan.Message
			}
			return ""
		})
		e.eraseStatus(t, name)
		e.replaced(t, name, append([]string{broken}, make([]string, 2)...))
		eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	})
	if now := e.clusterUID(t, name); now != uid {
		t.Errorf("the cluster is another: kube-system has the UID %s, it was %s", now, uid)
	}
	e.takeDown(t, name)
}

// clusterUID is what a cluster keeps for life, and another cluster has not.
func (e *environment) clusterUID(t *testing.T, name string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	ns, err := c.CoreV1().Namespaces().Get(context.Background(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

// eraseStatus erases the status of a control plane and of its machines while the cluster is paused, and kills the
// daemon before it goes on, so that nothing of it is remembered either.
func (e *environment) eraseStatus(t *testing.T, name string) {
	t.Helper()
	e.pause(t, name, true)
	eventually(t, "the controllers stand still", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "Paused" {
			return p.Message
		}
		return ""
	})
	c, ctx := e.management(t), context.Background()
	objects := []client.Object{e.controlPlane(t, name)}
	for _, m := range e.machineObjects(t, name) {
		objects = append(objects, &m)
	}
	for _, o := range objects {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))
		if err := c.Status().Patch(ctx, o, patch); err != nil {
			t.Fatal(fmt.Errorf("erasing the status of %s: %w", o.GetName(), err))
		}
	}
	if ptr.Deref(e.controlPlane(t, name).Status.Initialization.ControlPlaneInitialized, false) {
		t.Fatal("the status is still there")
	}
	killDaemon(t, e)
	e.quorate(t, "up", "--network", e.network, "--name", name, "--wait=false")
	e.pause(t, name, false)
}

// pause sets or takes back the pause of a cluster.
func (e *environment) pause(t *testing.T, name string, paused bool) {
	t.Helper()
	c, cluster := e.management(t), &clusterv1.Cluster{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	cluster.Spec.Paused = ptr.To(paused)
	if err := c.Patch(context.Background(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
