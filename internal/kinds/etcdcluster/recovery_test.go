package etcdcluster

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// uses has the control plane keep its data in an etcd cluster of that name; empty: in none.
func (w *world) uses(name string) {
	w.t.Helper()
	kcp := &v1beta2.KubeadmControlPlane{}
	w.get("demo-cp", kcp)
	kcp.Spec.ManagedExternalEtcdRef = v1beta2.ManagedEtcdReference{}
	if name != "" {
		kcp.Spec.ManagedExternalEtcdRef = v1beta2.ManagedEtcdReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "EtcdCluster", Name: name}
	}
	w.update(kcp)
}

// recovers creates a recovery that a person has approved, with a seed.
func (w *world) recovers(giveUp ...string) *backupv1alpha1.EtcdRecovery {
	w.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-recovery", Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation: `{"backup":"20261127t170312z-x7k2p","revision":7,"size":9,"sha256":"abcd"}`,
			v1beta2.ApprovedByAnnotation:          time.Now().UTC().Format(time.RFC3339) + " somebody",
		}},
		Spec: backupv1alpha1.EtcdRecoverySpec{ClusterName: "demo", Survivor: "Best", GiveUp: giveUp},
	}
	w.create(r)
	r.Annotations[v1beta2.ApprovedAnnotation] = observe.RecoveryDigest(r, "cluster-uid")
	w.update(r)
	return r
}

// recovery reads the recovery.
func (w *world) recovery() *backupv1alpha1.EtcdRecovery {
	w.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{}
	w.get("demo-recovery", r)
	return r
}

// lose lets two of three members be lost long ago, and returns the machines.
func (w *world) lose() []string {
	w.t.Helper()
	w.silence("demo-etcd-1")
	w.silence("demo-etcd-2")
	for i := range w.members {
		m := &w.members[i]
		if m.Leader = false; m.Health == plan.Healthy {
			m.At, m.Term, m.Applied, m.Revision = m.Name, 4, 1100, 980
		}
	}
	w.settle()
	time.Sleep(time.Minute)
	if p := w.settle(); p.Reason != "QuorumLost" || !strings.Contains(p.Message, "recovery is possible from the etcd member on demo-etcd-3") {
		w.t.Fatalf("without a quorum: %+v", p)
	}
	return strings.Fields(w.names())
}

// TestRecovery: an etcd cluster that lost its quorum is made again from a seed. The old machines go, one machine is made for the seed, and
// the cluster grows. An endpoint for all members stays what it was.
func TestRecovery(t *testing.T) { synctest.Test(t, recoversBySeed) }

func recoversBySeed(t *testing.T) {
	e := testEtcd(3)
	e.Spec.Endpoint = "etcd.example"
	w := newWorld(t, e)
	w.uses("demo-etcd")
	w.rest()
	old := w.lose()
	w.recovers(old...)
	w.lagging["all"] = true // nobody begins or joins
	if p := w.settle(); p.Reason != "RecoverySeeding" || w.names() != "demo-etcd-4" {
		t.Fatalf("with a machine that restores the seed: %+v, machines are %s", p, w.names())
	}
	w.members, w.lagging = nil, map[string]bool{} // who restores the seed begins another cluster
	w.rest()
	r := w.recovery()
	if r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] == "" ||
		r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] == "" {
		t.Fatalf("the recovery has not ended: %v", r.Annotations)
	}
	if w.voters() != "demo-etcd-4 demo-etcd-5 demo-etcd-6" || w.names() != w.voters() || !slices.Equal(slices.Sorted(slices.Values(w.gone)),
		old) {
		t.Errorf("voters are %s, machines %s, gone are %v", w.voters(), w.names(), w.gone)
	}
	seeded, m := "", &clusterv1.Machine{}
	for _, name := range strings.Fields(w.names()) {
		w.get(name, m)
		seeded += m.Annotations[observe.SeededByAnnotation]
		config := &bootstrapv1alpha1.EtcdadmConfig{}
		if w.get(name, config); m.Spec.Bootstrap.ConfigRef.Name != name {
			t.Errorf("%s has the bootstrap %+v", name, m.Spec.Bootstrap)
		}
	}
	if w.get("demo-etcd-4", m); m.Annotations[observe.SeededByAnnotation] != string(r.UID) || seeded != string(r.UID) {
		t.Errorf("demo-etcd-4 must be the only one that was made by the seed: %q", seeded)
	}
	status := w.etcd().Status
	if len(w.told) != 1 || status.Endpoints != "https://etcd.example:2379" ||
		status.Members != "https://10.0.0.4:2379,https://10.0.0.5:2379,https://10.0.0.6:2379" {
		t.Errorf("the control plane was told %v, and members are %s", w.told, status.Members)
	}
}

// TestRecoveryWaits: nothing is given up while etcd has a quorum, without an approval of exactly what is there, or where the control plane
// keeps its data elsewhere.
func TestRecoveryWaits(t *testing.T) {
	for name, change := range map[string]func(*world, *backupv1alpha1.EtcdRecovery){
		"nobody approved":              func(_ *world, r *backupv1alpha1.EtcdRecovery) { delete(r.Annotations, v1beta2.ApprovedAnnotation) },
		"it was changed since":         func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.Off = []string{"demo-etcd-1"} },
		"a machine is not named":       func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.GiveUp = r.Spec.GiveUp[1:] },
		"of another cluster":           func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.ClusterName = "other" },
		"the control plane uses none":  func(w *world, _ *backupv1alpha1.EtcdRecovery) { w.uses("") },
		"the control plane has others": func(w *world, _ *backupv1alpha1.EtcdRecovery) { w.uses("other-etcd") },
		"a quorum is back": func(w *world, _ *backupv1alpha1.EtcdRecovery) {
			for i := range w.members {
				w.members[i].Health = plan.Healthy
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keepsAll(t, change) })
		})
	}
}

// keepsAll checks that a recovery that was changed deletes nothing.
func keepsAll(t *testing.T, change func(*world, *backupv1alpha1.EtcdRecovery)) {
	t.Helper()
	w := newWorld(t, testEtcd(3))
	w.uses("demo-etcd")
	w.rest()
	r := w.recovers(w.lose()...)
	change(w, r)
	w.update(r)
	w.settle()
	if w.recovery().Annotations[backupv1alpha1.RecoveryBegunAnnotation] != "" || len(w.gone) > 0 {
		t.Errorf("the recovery began, and gone are %v: %+v", w.gone, w.etcd().Status.Plan)
	}
}
