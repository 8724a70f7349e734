package observe

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdv1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

const asleep = `{"requested":"2026-11-28T10:00:00Z","backup":"b1","store":"ClusterBackupStore/s","taken":"2026-11-28T10:01:00Z",` +
	`"since":"2026-11-28T10:02:00Z","machines":["demo-cp-1"]}`

// hibernated is a control plane with what is noted of its hibernation.
func hibernated(text string) *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp",
		Annotations: map[string]string{controlplanev1.HibernationAnnotation: text}}}
}

// TestHibernationOf: what was written is read again; what cannot be read, and what a kind that does not hibernate has, is nothing.
func TestHibernationOf(t *testing.T) {
	h := HibernationOf(hibernated(asleep))
	if h.String() != asleep || !h.IsAsleep() || h.IsNone() {
		t.Errorf("%+v, written as %s", h, h)
	}
	if r := h.StoreRef(); r.Kind != controlplanev1.BackupStoreOfCluster || r.Name != "s" || StoreOf(r) != h.Store {
		t.Errorf("the store is %+v", r)
	}
	h.Woken = true
	if h.IsAsleep() || h.IsNone() {
		t.Errorf("woken: %+v", h)
	}
	for _, text := range []string{"", "x", "{}", `{"requested":"yesterday"}`} {
		if h := HibernationOf(hibernated(text)); !h.IsNone() || h.IsAsleep() {
			t.Errorf("%q is read as %+v", text, h)
		}
	}
	other := &etcdv1.EtcdCluster{ObjectMeta: hibernated(asleep).ObjectMeta}
	if h := HibernationOf(other); !h.IsNone() {
		t.Errorf("an EtcdCluster hibernates: %+v", h)
	}
}

// TestRecoveryAllowed: the spec approves the recovery from the backup of the hibernation, as Quorate made it, while the control plane is to
// run, or once it has begun; and no other one.
func TestRecoveryAllowed(t *testing.T) {
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		hibernate bool
		noted     string
		change    func(*EtcdRecovery)
		allowed   bool
	}{
		"to run":       {false, asleep, nil, true},
		"to hibernate": {true, asleep, nil, false},
		"to hibernate, and it has begun": {true, asleep, func(r *EtcdRecovery) {
			r.Annotations = map[string]string{backupv1alpha1.RecoveryBegunAnnotation: "2026-11-28T23:00:00Z"}
		}, true},
		"nothing is noted":    {false, "", nil, false},
		"another name":        {false, asleep, func(r *EtcdRecovery) { r.Name = "demo-cp-wake-b2" }, false},
		"another backup":      {false, asleep, func(r *EtcdRecovery) { r.Spec.Backup = "b2" }, false},
		"a survivor":          {false, asleep, func(r *EtcdRecovery) { r.Spec.Backup, r.Spec.Survivor = "", "Best" }, false},
		"another store":       {false, asleep, func(r *EtcdRecovery) { r.Spec.StoreRef.Kind = controlplanev1.BackupStoreOfNamespace }, false},
		"a machine is off":    {false, asleep, func(r *EtcdRecovery) { r.Spec.Off = []string{"demo-cp-1"} }, false},
		"of another cluster":  {false, asleep, func(r *EtcdRecovery) { r.Spec.FormerClusterUID = "u" }, false},
		"with a seed":         {false, asleep, seedOf("b1"), true},
		"with another's seed": {false, asleep, seedOf("b2"), false},
	} {
		r := &EtcdRecovery{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp-wake-b1"}, Spec: backupv1alpha1.EtcdRecoverySpec{
			Backup: "b1", StoreRef: controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreOfCluster, Name: "s"},
		}}
		if test.change != nil {
			test.change(r)
		}
		if at := RecoveryAllowed(r, "uid", hibernated(test.noted), now, test.hibernate); at.Equal(now) != test.allowed {
			t.Errorf("%s: allowed at %s", name, at)
		}
	}
}

func seedOf(backup string) func(*EtcdRecovery) {
	return func(r *EtcdRecovery) {
		r.Annotations = map[string]string{backupv1alpha1.RecoverySeedAnnotation: `{"backup":"` + backup + `","sha256":"ab"}`}
	}
}
