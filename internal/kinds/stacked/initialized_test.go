package stacked

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// loseStatus erases what clusterctl move and most backups leave behind.
func (w *world) loseStatus() {
	w.t.Helper()
	ctx := context.Background()
	kcp := w.kcp()
	kcp.Status = controlplanev1.KubeadmControlPlaneStatus{}
	if err := w.client.Status().Update(ctx, kcp); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range w.machines() {
		m.Status = clusterv1.MachineStatus{}
		if err := w.client.Status().Update(ctx, &m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// forgetRecords takes away what Quorate wrote down, as if others had made the control plane.
func (w *world) forgetRecords() {
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		delete(kcp.Annotations, controlplanev1.InitializedAnnotation)
		delete(kcp.Annotations, controlplanev1.InitializingAnnotation)
	})
}

// firstOnly makes every machine's configuration one that initialises, as that of a single machine is.
func (w *world) firstOnly() {
	w.t.Helper()
	for _, m := range w.machines() {
		config := &bootstrapv1.KubeadmConfig{}
		if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(&m), config); err != nil {
			w.t.Fatal(err)
		}
		config.Spec.JoinConfiguration.ControlPlane = nil
		if err := w.client.Update(context.Background(), config); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestLostStatus: a control plane whose status is gone, and whose machines are outdated, loses
// no machine and no member before the cluster was seen, whatever else was forgotten.
func TestLostStatus(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"the status":             func(*world) {},
		"status and annotations": func(w *world) { w.forgetRecords() },
		"all but the machines":   func(w *world) { w.forgetRecords(); w.firstOnly() },
		"the UID is another": func(w *world) {
			w.forgetRecords()
			w.firstOnly()
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
				kcp.Annotations[controlplanev1.InitializingAnnotation] = "the UID before the move"
			})
		},
	} {
		for _, replicas := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				w := grown(t, replicas)
				w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
					kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "hello"}}
				})
				lose(w)
				w.loseStatus()
				seen := w.view
				w.view = workload.View{Why: "no connection was requested"}
				w.use(w.client)
				if err := w.client.Delete(context.Background(), w.machine("demo-cp-1")); err != nil {
					t.Fatal(err)
				}
				w.terminate("demo-cp-1")
				for range 6 {
					w.turn()
				}
				for _, m := range w.machines() {
					if !m.DeletionTimestamp.IsZero() != (m.Name == "demo-cp-1") || !machine.HasHook(&m) {
						t.Fatalf("%s is let go before the cluster was seen: %+v", m.Name, w.kcp().Status.Plan)
					}
				}
				w.view = seen
				w.forgetEtcd()
				for range 4 {
					w.turn() // the status is not written in turns that act
				}
				if !w.scene().Facts.Group.Initialized {
					t.Errorf("the cluster is not found again: %+v", w.kcp().Status.Plan)
				}
				if _, recorded := w.kcp().Annotations[controlplanev1.InitializedAnnotation]; !recorded ||
					!ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) {
					t.Error("what was found again is not written down")
				}
			})
		}
	}
}

// TestProvenNew: a first machine that never comes up, and is outdated, is taken away and replaced
// as long as it is proven that nothing was initialised.
func TestProvenNew(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	w.settle()
	if got := w.kcp().Annotations[controlplanev1.InitializingAnnotation]; got != "kcp-uid" {
		t.Fatalf("what proves that nothing was initialised is %q", got)
	}
	w.claim("demo-cp-1")
	w.change(upgrade)
	w.settle()
	if w.machine("demo-cp-1").DeletionTimestamp.IsZero() {
		t.Errorf("a corrected spec waits for what was broken before: %+v", w.kcp().Status.Plan)
	}
}

// TestRefusedSpecStillRepairs: a version that is too far holds nothing up but what it asks for. What
// is being deleted goes, and a broken machine is replaced by one of the version that the others have.
func TestRefusedSpecStillRepairs(t *testing.T) {
	w := grown(t, 3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.39.0" })
	w.settle()
	if p := w.kcp().Status.Plan; p.Rule != "refuse" || p.Reason != "InvalidVersionChange" {
		t.Fatalf("it waits with %+v", p)
	}
	w.ail("demo-cp-2")
	w.forgetEtcd()
	w.settle()
	w.terminate("demo-cp-2")
	w.forgetEtcd()
	w.settle()
	w.bury()
	w.forgetEtcd()
	w.settle()
	if got := strings.Join(w.machineNames(), " "); got != "demo-cp-1 demo-cp-3 demo-cp-4" {
		t.Fatalf("machines are %s: %+v", got, w.kcp().Status.Plan)
	}
	if v := w.machine("demo-cp-4").Spec.Version; v != "v1.36.3" {
		t.Errorf("the replacement has version %s, the others v1.36.3", v)
	}
	said := false
	for _, v := range plan.Explain(w.scene().Facts) {
		said = said || v.Rule == "refuse" && strings.Contains(v.Because+v.Decision.Message, "v1.39.0")
	}
	if !said {
		t.Error("explain does not show why nothing is begun")
	}
}

// TestBuildable: while its version is refused, machines are made of the newest that is there.
func TestBuildable(t *testing.T) {
	kcp := testKCP(3)
	kcp.Spec.Version = "v1.39.0"
	machines := []*clusterv1.Machine{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clusterv1.MachineSpec{Version: "v1.35.4"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: clusterv1.MachineSpec{Version: "v1.36.3"}},
	}
	s := begin(kcp, testCluster(), machines, nil, time.Now())
	if got := buildable(s.View).Spec.Version; got != "v1.36.3" || kcp.Spec.Version != "v1.39.0" {
		t.Errorf("machines would be made of %s, and %s is wanted now", got, kcp.Spec.Version)
	}
	kcp.Spec.Version = "v1.36.3"
	if s := begin(kcp, testCluster(), machines, nil, time.Now()); buildable(s.View) != kcp {
		t.Error("what is not refused is changed")
	}
}
