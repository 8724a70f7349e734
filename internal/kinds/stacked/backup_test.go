package stacked

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// required is since when a verified backup is needed, as the control plane says.
func (w *world) required() string {
	return w.kcp().Annotations[controlplanev1.BackupRequiredAnnotation]
}

// verified has a backup noted as whoever takes them does.
func (w *world) verified(b observe.VerifiedBackup) {
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations[controlplanev1.BackupVerifiedAnnotation] = b.String()
	})
}

// TestBackupRequired: a change of the minor version asks once for a backup, tells what is wrong with the store, and goes on with a verified
// one of this identity that is young enough. A patch asks for none.
func TestBackupRequired(t *testing.T) {
	w := grown(t, 3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version = "v1.37.0"
		kcp.Spec.Backup = &controlplanev1.BackupSpec{
			StoreRef: controlplanev1.BackupStoreReference{Name: "bucket"}, Schedule: "@daily",
			Before:       []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion},
			MaxAgeBefore: &metav1.Duration{Duration: 10 * time.Minute},
		}
		kcp.Annotations[controlplanev1.BackupIdentityAnnotation] = "u1"
	})
	const why = "a verified backup not older than 10m is needed before one of 3 machines is replaced or changed in place " +
		"(demo-cp-1: Kubernetes v1.36.3 -> v1.37.0)"
	waits := func(when, more string) {
		t.Helper()
		p := w.step()
		if p.Step != string(plan.Wait) || p.Reason != plan.BackupRequired || p.Message != why+more || len(w.machines()) != 3 {
			t.Errorf("%s: %+v", when, p)
		}
	}
	waits("without a backup", "; no verified backup is known")
	asked, err := time.Parse(time.RFC3339, w.required())
	if err != nil || time.Since(asked) > time.Minute {
		t.Fatalf("%q is required, %v", w.required(), err)
	}
	kcp := w.kcp()
	conditions.Set(kcp, metav1.Condition{
		Type: controlplanev1.BackupCurrentCondition, Status: metav1.ConditionFalse,
		Reason: controlplanev1.BackupStoreUnusable, Message: "connection refused",
	})
	if err := w.client.Status().Update(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	waits("while the store is down", "; no verified backup is known; StoreUnusable: connection refused")
	young := observe.VerifiedBackup{Store: "BackupStore/bucket", UID: "u1", Name: "b1", Taken: time.Now().Truncate(time.Second)}
	for when, change := range map[string]func(*observe.VerifiedBackup){
		"with a backup of another cluster": func(b *observe.VerifiedBackup) { b.UID = "u2" },
		"with a backup in another store":   func(b *observe.VerifiedBackup) { b.Store = "other" },
		"with an old backup":               func(b *observe.VerifiedBackup) { b.Taken = b.Taken.Add(-11 * time.Minute) },
		"with a backup of the future":      func(b *observe.VerifiedBackup) { b.Taken = b.Taken.Add(2 * time.Minute) },
	} {
		b := young
		change(&b)
		w.verified(b)
		if p := w.step(); p.Reason != plan.BackupRequired || len(w.machines()) != 3 {
			t.Errorf("%s: %+v", when, p)
		}
	}
	if got := w.required(); got != asked.Format(time.RFC3339) {
		t.Errorf("asked for again: %s, first %s", got, asked)
	}
	w.verified(young)
	if p := w.step(); p.Reason != "Joining" || len(w.machines()) != 4 {
		t.Fatalf("with a backup: %+v", p)
	}
}

// TestBackupPatch: what spec.backup.before does not name waits for no backup.
func TestBackupPatch(t *testing.T) {
	w := grown(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version = "v1.36.4"
		kcp.Spec.Backup = &controlplanev1.BackupSpec{
			StoreRef: controlplanev1.BackupStoreReference{Name: "bucket"}, Schedule: "@daily",
			Before: []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion},
		}
	})
	if p := w.step(); p.Reason != "Joining" || w.required() != "" {
		t.Errorf("%+v, required %q", p, w.required())
	}
}
