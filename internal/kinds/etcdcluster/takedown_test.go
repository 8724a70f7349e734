package etcdcluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// machineOf is a Machine of a cluster that is not etcd's.
func machineOf(cluster, name string, labels ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	for _, label := range labels {
		m.Labels[label] = ""
	}
	m.Spec.ClusterName = cluster
	return m
}

// alive says which of the cluster's parts are not being deleted.
func (w *world) alive() string {
	var parts []string
	for _, m := range w.machines() {
		if m.Labels[clusterv1.ClusterNameLabel] == "demo" && !strings.HasPrefix(m.Name, "demo-etcd") {
			parts = append(parts, m.Name)
		}
	}
	if !w.isGone("demo-cp", &v1beta2.KubeadmControlPlane{}) {
		parts = append(parts, "control plane")
	}
	if e := w.etcd(); e != nil && e.DeletionTimestamp.IsZero() {
		parts = append(parts, "etcd")
	}
	if len(w.members) > 0 && w.etcd() != nil {
		parts = append(parts, "data")
	}
	return strings.Join(parts, ", ")
}

// peopled is a world with a worker, a MachinePool and a machine of the control plane, beside those of another cluster.
func peopled(t *testing.T) *world {
	t.Helper()
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	return grown(t, 3, pool, machineOf("demo", "cp-1", clusterv1.MachineControlPlaneLabel), machineOf("demo", "worker"),
		machineOf("other", "stranger"))
}

// finish lets the control plane go at last.
func (w *world) finishControlPlane() {
	w.t.Helper()
	w.remove(machineOf("demo", "cp-1"))
	cp := &v1beta2.KubeadmControlPlane{}
	w.get("demo-cp", cp)
	cp.Finalizers = nil
	w.update(cp)
}

// TestDeletionInOrder: workers, control plane, etcd, whoever is deleted first, and whatever is forgotten on the way.
func TestDeletionInOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		first []client.Object
		// parts are those that are not being deleted then.
		parts string
	}{
		{"the Cluster", nil, "control plane, etcd, "},
		{"etcd", []client.Object{testEtcd(3)}, "control plane, "},
		{"the control plane", []client.Object{testControlPlane()}, "etcd, "},
		{"both", []client.Object{testControlPlane(), testEtcd(3)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := peopled(t)
			for _, o := range test.first {
				w.remove(o)
			}
			w.rested(t, "cp-1, worker, "+test.parts+"data")
			w.remove(testCluster())
			w.rested(t, "cp-1, worker, "+test.parts+"data")
			w.remove(machineOf("demo", "worker"))
			w.rested(t, "cp-1, "+test.parts+"data") // the MachinePool is still there
			w.remove(&clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}})
			w.restart()
			w.rested(t, "cp-1, "+strings.TrimPrefix(test.parts, "control plane, ")+"data")
			w.finishControlPlane()
			if w.settle(); w.etcd() != nil || w.names() != "stranger" {
				t.Errorf("what is left is %s and %s", w.alive(), w.names())
			}
		})
	}
}

// rested settles, and these parts remain; who must go first is told by name.
func (w *world) rested(t *testing.T, want string) {
	t.Helper()
	p := w.settle()
	if got := w.alive(); got != want {
		t.Fatalf("%s remain, want %s: %+v", got, want, p)
	}
	if e := w.etcd(); !e.DeletionTimestamp.IsZero() && (p.Step != string(plan.Wait) || p.Reason != "WorkersRemain" ||
		!strings.Contains(p.Message, "cp-1")) {
		t.Errorf("etcd waits, and told is %+v", p)
	}
}

// TestEtcdDeletedAlone: while the control plane needs it, it keeps its members and what it told of them.
func TestEtcdDeletedAlone(t *testing.T) {
	w := grown(t, 1, machineOf("demo", "cp-1", clusterv1.MachineControlPlaneLabel))
	w.offer("172.30.0.10")
	w.rest()
	w.told = w.told[len(w.told)-1:]
	w.remove(testEtcd(1))
	w.restart() // what the infrastructure offers is not read any more
	if p := w.settle(); p.Reason != "WorkersRemain" || !strings.Contains(p.Message, "cp-1") || len(w.told) != 1 ||
		w.voters() != "demo-etcd-1" {
		t.Errorf("told is %+v, endpoints were %v", p, w.told)
	}
}

// TestDeletedWithoutControlPlane: a cluster that refers to no control plane has nobody else to wait for.
func TestDeletedWithoutControlPlane(t *testing.T) {
	w := grown(t, 1)
	cluster := testCluster()
	w.get("demo", cluster)
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	w.update(cluster)
	w.remove(cluster)
	if w.settle(); w.etcd() != nil || len(w.machines()) > 0 {
		t.Errorf("what is left is %s", w.names())
	}
}

// TestDeletedBesideUnadoptable: a machine that cannot be adopted does not hold up the end of the cluster.
func TestDeletedBesideUnadoptable(t *testing.T) {
	w := grown(t, 1)
	other := machineOf("demo", "other")
	other.Labels["cluster.x-k8s.io/etcd-cluster"] = "demo-etcd"
	w.create(other)
	w.remove(testCluster())
	if w.settle(); !w.isGone("demo-cp", &v1beta2.KubeadmControlPlane{}) {
		t.Errorf("the control plane stays: %+v", w.etcd().Status.Plan)
	}
}

// TestNotTakenDown: a cluster that is not being deleted keeps what it has, also without workers.
func TestNotTakenDown(t *testing.T) {
	w := grown(t, 1)
	if w.settle(); w.alive() != "control plane, etcd, data" {
		t.Errorf("what remains is %s", w.alive())
	}
}
