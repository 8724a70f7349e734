package provider

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/group/observe"
)

// seeded adds a Machine of an etcd cluster that lost its quorum, made by the seed of an EtcdRecovery that goes on, and returns that.
func (s *scene) seeded() *backupv1alpha1.EtcdRecovery {
	s.Helper()
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Members = "https://10.0.0.1:2379" })
	owner := metav1.OwnerReference{APIVersion: etcdclusterv1alpha1.GroupVersion.String(), Kind: "EtcdCluster", Name: "demo-etcd",
		UID: "etcd-uid"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	if err := certs.GenerateManagedEtcd(s.Context(), s.client, cluster, owner); err != nil {
		s.Fatal(err)
	}
	s.machine("e-4", bootstrapv1alpha1.EtcdadmConfigSpec{})
	m := &clusterv1.Machine{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: "e-4"}, m); err != nil {
		s.Fatal(err)
	}
	m.Annotations = map[string]string{observe.SeededByAnnotation: "recovery-uid"}
	if err := s.client.Update(s.Context(), m); err != nil {
		s.Fatal(err)
	}
	r := &backupv1alpha1.EtcdRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: "recovery-uid",
		Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation:  `{"backup":"b1","revision":7,"size":9,"sha256":"abcd"}`,
			backupv1alpha1.RecoveryBegunAnnotation: "2026-11-27T17:00:00Z",
			controlplanev1.ApprovedByAnnotation:    time.Now().UTC().Format(time.RFC3339) + " somebody",
		}}}
	r.Spec.ClusterName = "demo"
	r.Annotations[controlplanev1.ApprovedAnnotation] = observe.RecoveryDigest(r, "cluster-uid")
	return r
}

// TestRestore: a machine that was made by a seed fetches and restores that, and never joins the members of before or begins without data,
// also where the recovery is not there, has ended, or was changed.
func TestRestore(t *testing.T) {
	s := newScene(t)
	r := s.seeded()
	s.create(r)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: observe.SeedSecretName(r)}, Data: map[string][]byte{
		corev1.TLSCertKey: []byte("the certificate"), observe.SeedTokenKey: []byte("key"), observe.SeedAddressKey: []byte("10.0.0.9:9446"),
	}})
	data := s.data("e-4")
	contains(t, data, "ROLE='restore'", "ENDPOINTS=''", "SEED_HOST='recovery-uid.seed.quorate'", "SEED_ADDRESS='10.0.0.9:9446'",
		"SEED_PATH='v1/seeds/default/r'", "SEED_SHA256='abcd'", "SEED_CLUSTER='e-4-recovery-uid'", "ETCD='/opt/bin/etcd'", "the certificate",
		"Authorization: Bearer "+observe.SeedSource{Token: "key"}.TokenOf("e-4"), "ExecStart=/bin/sh /etc/quorate/etcd/start.sh", "etcd.example")

	for name, change := range map[string]func(*backupv1alpha1.EtcdRecovery){
		"another recovery": func(r *backupv1alpha1.EtcdRecovery) { r.UID = "other" },
		"not begun":        func(r *backupv1alpha1.EtcdRecovery) { delete(r.Annotations, backupv1alpha1.RecoveryBegunAnnotation) },
		"ended": func(r *backupv1alpha1.EtcdRecovery) {
			r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] = "2026-11-27T18:00:00Z"
		},
		"not approved as it is": func(r *backupv1alpha1.EtcdRecovery) { r.Spec.Off = []string{"e-1"} },
		"without a seed":        func(r *backupv1alpha1.EtcdRecovery) { delete(r.Annotations, backupv1alpha1.RecoverySeedAnnotation) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			r := s.seeded()
			change(r)
			s.create(r)
			s.waits("e-4", bootstrapv1alpha1.WaitingForSeedReason, "")
		})
	}
}
