package stacked

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestLife takes a control plane from nothing to three machines, down to one,
// and to its end.
func TestLife(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))

	if p := w.settle(); p.Reason != "Initializing" {
		t.Fatalf("after the first turns: %+v", p)
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1"}) {
		t.Fatalf("machines are %v before the first has initialised", got)
	}
	if got := len(w.names(&corev1.SecretList{})); got != 5 {
		t.Errorf("%d secrets, want four authorities and a kubeconfig", got)
	}

	// The API server answers before kubeadm has finished: nobody may join yet.
	w.join("demo-cp-1")
	if p := w.settle(); p.Reason != "Initializing" || len(w.machineNames()) != 1 {
		t.Fatalf("before kubeadm has finished: %+v, machines %v", p, w.machineNames())
	}
	w.init = true
	w.settle()
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"}) {
		t.Fatalf("machines are %v, want all missing ones at once; %+v, %v", got, w.kcp().Status.Plan, w.r.Memories.Of(kcpKey).Writes.Awaited)
	}
	if !ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) {
		t.Error("the control plane is not initialised in its status")
	}
	domains := map[string]bool{}
	for _, m := range w.machines() {
		domains[m.Spec.FailureDomain] = true
	}
	if len(domains) != 3 {
		t.Errorf("the machines are in the failure domains %v, want three", domains)
	}

	w.join("demo-cp-2")
	w.join("demo-cp-3")
	w.forgetEtcd()
	if p := w.settle(); p.Step != string(plan.Nothing) {
		t.Fatalf("with three machines: %+v", p)
	}
	if got := w.kcp().Annotations[controlplanev1.LastMachineAnnotation]; got != "3" {
		t.Errorf("last machine is %q", got)
	}

	w.scale(1)
	w.shrink(2)
	if p := w.settle(); p.Step != string(plan.Nothing) || len(w.machineNames()) != 1 || len(w.members) != 1 {
		t.Fatalf("after scaling down: %+v, machines %v, members %v", p, w.machineNames(), w.members)
	}
	w.end()
}

// TestDeletedWhileInitialising: kubeadm may finish while its machine is being
// deleted. Nobody could join what goes with it.
func TestDeletedWhileInitialising(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	w.settle()
	w.join("demo-cp-1")
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-1")); err != nil {
		t.Fatal(err)
	}
	w.init = true
	w.settle()
	if ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) || len(w.machineNames()) != 1 {
		t.Errorf("initialised %v, machines %v", w.kcp().Status.Initialization, w.machineNames())
	}
}

// TestQuorumKeptForWorkers: while workers are left, a machine that goes still goes in good order.
func TestQuorumKeptForWorkers(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-worker",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	if err := w.client.Create(ctx, worker); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(ctx, w.kcp()); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(ctx, w.machine("demo-cp-1")); err != nil {
		t.Fatal(err)
	}
	w.terminate("demo-cp-1")
	w.settle()
	w.bury()
	if got := w.machineNames(); len(w.members) != 2 || !slices.Equal(got, []string{"demo-cp-2", "demo-cp-3", "demo-worker"}) {
		t.Errorf("machines are %v, members %v", got, w.members)
	}
	if !slices.ContainsFunc(w.members, func(m etcd.Member) bool { return m.Leader }) {
		t.Error("the leader left without handing over")
	}
}

// scale changes the number of machines wanted.
func (w *world) scale(replicas int32) {
	w.t.Helper()
	kcp := w.kcp()
	kcp.Spec.Replicas = &replicas
	kcp.Generation++
	if err := w.client.Update(context.Background(), kcp); err != nil {
		w.t.Fatal(err)
	}
}

// shrink lets so many machines go in good order, one after the other.
func (w *world) shrink(machines int) {
	w.t.Helper()
	for range machines {
		w.settle()
		going := slices.IndexFunc(w.machines(), func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
		if going < 0 {
			w.t.Fatalf("no machine is being deleted: %+v", w.kcp().Status.Plan)
		}
		name := w.machines()[going].Name
		members := len(w.members)
		w.terminate(name)
		w.forgetEtcd()
		w.settle()
		if len(w.members) != members-1 {
			w.t.Fatalf("%d members after the end of %s, want %d", len(w.members), name, members-1)
		}
		for _, m := range w.members {
			if m.Name == name {
				w.t.Fatalf("the member of %s is still there", name)
			}
		}
		w.bury()
		w.forgetEtcd()
	}
}

// end deletes the control plane: it waits for the worker, and then goes with all its machines.
func (w *world) end() {
	w.t.Helper()
	ctx := context.Background()
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-worker",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	worker.Spec.ClusterName = "demo"
	if err := w.client.Create(ctx, worker); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Delete(ctx, w.kcp()); err != nil {
		w.t.Fatal(err)
	}
	p := w.settle()
	if p.Reason != "WorkersRemain" || !strings.Contains(p.Message, "demo-worker") {
		w.t.Fatalf("with a worker left: %+v", p)
	}
	if err := w.client.Delete(ctx, worker); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
	w.bury()
	w.settle()
	if w.kcp() != nil || len(w.machineNames()) != 0 {
		w.t.Fatalf("something is left: %+v, machines %v", w.kcp(), w.machineNames())
	}
	if w.forgotten == 0 {
		w.t.Error("the connection to the cluster was not ended")
	}
}
