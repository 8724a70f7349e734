package backups

import (
	"strings"
	"testing"
	"time"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestHibernatedBackups: on the way into hibernation the newest verified backup is noted although no change needs one. While the control
// plane hibernates none is taken, however old the newest is, and retention keeps the one from which it wakes.
func TestHibernatedBackups(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.PowerState = controlplanev1.PowerHibernated }, hostStore())
	taken := time.Now().UTC().Truncate(time.Second).Add(-30 * 24 * time.Hour)
	name := put(t, s.catalog(uid), taken, true)
	kcp, text, _ := s.look()
	want := observe.VerifiedBackup{Store: "BackupStore/host", UID: uid, Name: name, Taken: taken}.String()
	if got := kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]; got != want || !strings.HasPrefix(text, "False Overdue") {
		t.Errorf("noted is %q, want %q; %s", got, want, text)
	}
	attempted := kcp.Status.Backup.LastAttempt.Time
	s.change(kcp, func(k *controlplanev1.KubeadmControlPlane) {
		h := observe.Hibernation{Requested: taken, Backup: name, Store: "BackupStore/host", Taken: taken, Since: taken}
		k.Annotations[controlplanev1.HibernationAnnotation] = h.String()
		k.Annotations[controlplanev1.BackupRequestedAnnotation] = time.Now().UTC().Format(time.RFC3339Nano)
	})
	kcp, text, _ = s.look()
	if !strings.HasPrefix(text, "True Hibernated: hibernated, and wakes from "+name) || !kcp.Status.Backup.LastAttempt.Time.Equal(&attempted) {
		t.Errorf("%s, the last attempt was at %s, before at %s", text, kcp.Status.Backup.LastAttempt.Time, attempted)
	}
	if again := (&look{object: kcp}).again(time.Now()); again != looks {
		t.Errorf("the store is read again after %s", again)
	}
	l := &look{object: kcp, catalog: s.catalog(uid), known: &known{}}
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := s.held(t.Context(), l)
	if err != nil || len(held) != 1 || !held[0].Held {
		t.Errorf("%+v, %v", held, err)
	}
}
