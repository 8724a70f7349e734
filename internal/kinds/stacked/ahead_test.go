package stacked

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// eagerKCP makes all machines beside the first.
func eagerKCP(replicas int32) *controlplanev1.KubeadmControlPlane {
	kcp := testKCP(replicas)
	kcp.Spec.Joins.Eager = ptr.To(true)
	return kcp
}

// kubeadmConfigOf is a machine's KubeadmConfig.
func (w *world) kubeadmConfigOf(name string) *bootstrapv1.KubeadmConfig {
	w.t.Helper()
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: kcpKey.Namespace, Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	return config
}

// paused is the value of the annotation paused on a machine's KubeadmConfig.
func (w *world) paused(name string) (value string, is bool) {
	w.t.Helper()
	value, is = w.kubeadmConfigOf(name).Annotations[clusterv1.PausedAnnotation]
	return value, is
}

// TestMadeAhead: all machines are made with the first; nobody makes bootstrap data of the others until they may join, and then they
// have their time.
func TestMadeAhead(t *testing.T) {
	w := newWorld(t, testCluster(), eagerKCP(3))
	p := w.settle()
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"}) || p.Reason != "Initializing" {
		t.Fatalf("machines are %v, %+v", got, p)
	}
	for name, held := range map[string]bool{"demo-cp-1": false, "demo-cp-2": true, "demo-cp-3": true} {
		if value, is := w.paused(name); is != held || is && value != controlplanev1.BootstrapHeld {
			t.Errorf("the bootstrap of %s is paused: %t, %q", name, is, value)
		}
	}
	if ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) {
		t.Error("a machine that was made ahead is taken for one that joined")
	}

	given := w.machine("demo-cp-3")
	given.Spec.Bootstrap.DataSecretName = ptr.To("given")
	if observe.IsHeld(&observe.Machine{Machine: given, Bootstrap: w.kubeadmConfigOf("demo-cp-3")}) {
		t.Error("a machine that has bootstrap data is taken for one that is held back")
	}

	w.join("demo-cp-1")
	w.init = true
	before := time.Now().Add(-time.Second)
	w.settle()
	for _, name := range []string{"demo-cp-2", "demo-cp-3"} {
		if value, is := w.paused(name); is {
			t.Errorf("the cluster is initialised, and the bootstrap of %s is paused: %q", name, value)
		}
		at, err := time.Parse(time.RFC3339, w.machine(name).Annotations[controlplanev1.BootstrapStartedAnnotation])
		if err != nil || at.Before(before.Add(-time.Second)) {
			t.Errorf("the bootstrap of %s was started at %s: %v", name, at, err)
		}
	}
	if got := w.machineNames(); len(got) != 3 {
		t.Errorf("machines are %v", got)
	}
	w.join("demo-cp-2")
	w.join("demo-cp-3")
	w.forgetEtcd()
	if p := w.settle(); p.Step != "Nothing" {
		t.Errorf("with three machines: %+v", p)
	}
}

// TestMadeAheadOutliveTheFirst: the first machine goes while it initialises the cluster, and another takes its place; who was made
// ahead waits for that.
func TestMadeAheadOutliveTheFirst(t *testing.T) {
	w := newWorld(t, testCluster(), eagerKCP(3))
	w.settle()
	w.join("demo-cp-1")
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-1")); err != nil {
		t.Fatal(err)
	}
	w.init = true
	w.settle()
	if ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) {
		t.Error("who was made ahead is taken for one that initialised the cluster")
	}
	w.terminate("demo-cp-1")
	w.init = false
	w.settle()
	w.bury()
	w.view.Nodes, w.view.Pods, w.members, w.view.Reachable = nil, nil, nil, false
	w.settle()
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-2", "demo-cp-3", "demo-cp-4"}) {
		t.Fatalf("machines are %v: %+v", got, w.kcp().Status.Plan)
	}
	if _, is := w.paused("demo-cp-4"); is {
		t.Error("the machine that initialises the cluster is held back")
	}
	if _, is := w.paused("demo-cp-2"); !is {
		t.Error("a machine that was made ahead begins before there is a cluster")
	}
}
