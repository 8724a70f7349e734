package stacked

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

const (
	recoveryName = "demo-recovery"
	seedToken    = "the-token"
)

// loses lets all members but the last fail, and the API server with them.
func (w *world) loses() {
	defer w.locked()()
	for i := range w.members[:len(w.members)-1] {
		w.members[i].Health, w.members[i].At = plan.Unhealthy, ""
	}
	w.view.Reachable, w.view.Why = false, "connection refused"
	w.view.FailingSince, w.view.SilentSince = time.Now(), time.Now()
	for i := range w.view.Pods {
		w.view.Pods[i].Status.Conditions = nil
	}
}

// recovers creates a recovery that a person has approved, and what its controller prepares.
func (w *world) recovers(giveUp ...string) *backupv1alpha1.EtcdRecovery {
	w.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: recoveryName, Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation: `{"backup":"20261127t170312z-x7k2p","revision":7,"size":9,"sha256":"abcd"}`,
			controlplanev1.ApprovedByAnnotation:   time.Now().UTC().Format(time.RFC3339) + " somebody",
		}},
		Spec: backupv1alpha1.EtcdRecoverySpec{
			ClusterName: "demo", Survivor: "Best", StoreRef: controlplanev1.BackupStoreReference{Name: "host"}, GiveUp: giveUp,
		},
	}
	if err := w.client.Create(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
	r.Annotations[controlplanev1.ApprovedAnnotation] = observe.RecoveryDigest(r, "cluster-uid")
	if err := w.client.Update(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
	seed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: observe.SeedSecretName(r)}, Data: map[string][]byte{
		corev1.TLSCertKey: []byte("certificate"), observe.SeedTokenKey: []byte(seedToken), observe.SeedAddressKey: []byte("172.29.0.1:9445"),
	}}
	if err := w.client.Create(context.Background(), seed); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// recovery reads the recovery.
func (w *world) recovery() *backupv1alpha1.EtcdRecovery {
	w.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: recoveryName}, r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestRecovery: a control plane that lost its quorum is made again from a seed: the old machines go without their hooks, one machine gets
// data of ours and not of the bootstrap provider, and the Nodes of the old machines go.
func TestRecovery(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) { recoversBySeed(t, rest.world(t)) })
}

func recoversBySeed(t *testing.T, w *world) {
	w.loses()
	old := w.machineNames()
	if p := w.settle(); p.Reason != "QuorumUnproven" && p.Reason != "QuorumLost" {
		t.Fatalf("without a quorum: %+v", p)
	}
	time.Sleep(time.Minute)
	r := w.recovers(old...)
	if p := w.settle(); p.Reason != "RecoveryFencing" || !strings.Contains(p.Message, old[0]) {
		t.Fatalf("with old machines that may answer: %+v", p)
	}
	for _, name := range old {
		m := w.machine(name)
		_, drains := m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
		if m.DeletionTimestamp.IsZero() || len(m.Annotations) == 0 || !drains || strings.Contains(strings.Join(keys(m.Annotations), " "),
			"pre-terminate") {
			t.Errorf("%s: deleted %v, %v", name, m.DeletionTimestamp, m.Annotations)
		}
	}
	w.members = nil
	w.bury()
	if p := w.settle(); p.Reason != "RecoverySeeding" {
		t.Fatalf("with a machine that restores the seed: %+v", p)
	}
	made := w.machineNames()
	if len(made) != 1 || slices.Contains(old, made[0]) {
		t.Fatalf("machines are %v, they were %v", made, old)
	}
	w.isSeeded(r, made[0])
	w.view.Pods = append(w.view.Pods, slices.Concat(testPods(old[0]), testPods(old[1]))...) // the snapshot has them
	time.Sleep(time.Second)
	w.appear(made[0])
	time.Sleep(time.Minute)
	w.settle()
	if w.recovery().Annotations[backupv1alpha1.RecoveryEndedAnnotation] == "" {
		t.Errorf("the recovery has not ended: %+v", w.kcp().Status.Plan)
	}
	if !slices.Equal(w.droppedNodes, old) {
		t.Errorf("the Nodes of %v were deleted, want those of %v", w.droppedNodes, old)
	}
	if want := []string{"etcd-" + old[0] + " beside 1", "etcd-" + old[1] + " beside 1"}; !slices.Equal(w.droppedPods, want) {
		t.Errorf("pods of etcd were deleted: %v, want %v", w.droppedPods, want)
	}
	if p := w.kcp().Status.Plan; p.Reason != "Joining" || len(w.machineNames()) != 3 {
		t.Errorf("after it: %+v, machines %v", p, w.machineNames())
	}
}

func keys(of map[string]string) []string {
	var all []string
	for k := range of {
		all = append(all, k)
	}
	return all
}

// isSeeded checks what a machine that restores a seed is made with.
func (w *world) isSeeded(r *backupv1alpha1.EtcdRecovery, name string) {
	w.t.Helper()
	m, data := w.machine(name), &corev1.Secret{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, data); err != nil {
		w.t.Fatal(err)
	}
	if m.Annotations[backupv1alpha1.SeededByAnnotation] != string(r.UID) || m.Spec.Bootstrap.DataSecretName == nil ||
		*m.Spec.Bootstrap.DataSecretName != name {
		w.t.Errorf("Machine %s: %v, %+v", name, m.Annotations, m.Spec.Bootstrap)
	}
	for _, part := range []string{
		"kubeadm init --config", "--bump-revision 1000000000 --mark-compacted", "Bearer " + observe.SeedSource{Token: seedToken}.TokenOf(name),
		"abcd", "172.29.0.1:9445", "/etc/kubernetes/pki/etcd/ca.key",
		"DirAvailable--var-lib-etcd", name + "-" + string(r.UID), "controlPlaneEndpoint: 172.30.0.10:6443",
	} {
		if !strings.Contains(string(data.Data["value"]), part) {
			w.t.Errorf("the bootstrap data of %s lacks %q", name, part)
		}
	}
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	if len(config.Spec.Files) > 0 || config.Spec.JoinConfiguration.ControlPlane != nil {
		w.t.Errorf("the KubeadmConfig, by which the machine counts as outdated or not, is %+v", config.Spec)
	}
}

// TestRecoveryWaits: nothing is given up without an approval of exactly what is there, and not when a quorum is back.
func TestRecoveryWaits(t *testing.T) {
	rest := start(t, 3)
	for name, change := range map[string]func(*world, *backupv1alpha1.EtcdRecovery){
		"nobody approved": func(_ *world, r *backupv1alpha1.EtcdRecovery) {
			delete(r.Annotations, controlplanev1.ApprovedAnnotation)
		},
		"another was approved":   func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Annotations[controlplanev1.ApprovedAnnotation] = "x" },
		"it was changed since":   func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.Off = []string{"demo-cp-1"} },
		"a machine is not named": func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.GiveUp = r.Spec.GiveUp[1:] },
		"of another cluster":     func(_ *world, r *backupv1alpha1.EtcdRecovery) { r.Spec.ClusterName = "other" },
		"it has ended": func(_ *world, r *backupv1alpha1.EtcdRecovery) {
			r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] = "2026-11-27T12:00:00Z"
		},
		"a quorum is back": func(w *world, _ *backupv1alpha1.EtcdRecovery) {
			for i := range w.members {
				w.members[i].Health = plan.Healthy
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keepsAll(t, rest.world(t), change) })
		})
	}
}

// keepsAll checks that a recovery that was changed deletes nothing.
func keepsAll(t *testing.T, w *world, change func(*world, *backupv1alpha1.EtcdRecovery)) {
	t.Helper()
	w.loses()
	w.settle()
	time.Sleep(time.Minute)
	r := w.recovers(w.machineNames()...)
	change(w, r)
	if err := w.client.Update(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if w.recovery().Annotations[backupv1alpha1.RecoveryBegunAnnotation] != "" {
		t.Error("the recovery began")
	}
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			t.Errorf("%s is deleted", m.Name)
		}
	}
}
