package backups

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// change patches the control plane.
func (s *scene) change(kcp *controlplanev1.KubeadmControlPlane, change func(*controlplanev1.KubeadmControlPlane)) {
	s.t.Helper()
	before := kcp.DeepCopy()
	change(kcp)
	if err := s.c.Patch(s.t.Context(), kcp, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

// catalog is the cluster's in the store of the host.
func (s *scene) catalog(id string) clusterbackup.Catalog {
	s.t.Helper()
	opened, done, err := s.Stores.Open(s.t.Context(), key.Namespace, controlplanev1.BackupStoreReference{Name: "host"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(done)
	return clusterbackup.Catalog{Store: opened, UID: id}
}

// TestNotesVerified: the newest verified backup of this cluster is noted as the store has it, while one is asked for before changes, and
// goes when the store has it no more. A store that cannot be used changes nothing.
func TestNotesVerified(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}
	}, hostStore())
	now := time.Now().UTC().Truncate(time.Second)
	good := put(t, s.catalog(uid), now.Add(-2*time.Hour), true)
	put(t, s.catalog(uid), now.Add(-time.Minute), false)
	put(t, s.catalog("another"), now.Add(-time.Minute), true)
	put(t, s.catalog(uid), now.Add(2*time.Hour), true)
	note := func() string {
		kcp, _, _ := s.look()
		return kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]
	}
	want := observe.VerifiedBackup{Store: "BackupStore/host", UID: uid, Name: good, Taken: now.Add(-2 * time.Hour)}.String()
	if got := note(); got != want {
		t.Errorf("noted is %q, want %q", got, want)
	}
	stores := s.Stores
	s.Stores.Folder = t.TempDir() + "/gone"
	if kcp, text, _ := s.look(); kcp.Annotations[controlplanev1.BackupVerifiedAnnotation] != want || text == "" {
		t.Errorf("without the store (%s) noted is %q, want %q", text, kcp.Annotations[controlplanev1.BackupVerifiedAnnotation], want)
	}
	s.Stores = stores
	if err := s.catalog(uid).Delete(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if got := note(); got != "" {
		t.Errorf("it was deleted from the store, and noted is %q", got)
	}
	put(t, s.catalog(uid), now.Add(-time.Minute), true)
	kcp, _, _ := s.look()
	if kcp.Annotations[controlplanev1.BackupVerifiedAnnotation] == "" {
		t.Error("another one is not noted")
	}
	s.change(kcp, func(k *controlplanev1.KubeadmControlPlane) {
		k.Annotations[controlplanev1.BackupRequiredAnnotation] = "2026-11-27T17:03:12Z"
		k.Spec.Backup.Before = nil
	})
	if kcp, _, _ = s.look(); len(kcp.Annotations) != 1 || kcp.Annotations[controlplanev1.BackupIdentityAnnotation] != uid {
		t.Errorf("before nothing, noted is %v", kcp.Annotations)
	}
	s.change(kcp, func(k *controlplanev1.KubeadmControlPlane) {
		k.Annotations[controlplanev1.BackupVerifiedAnnotation] = want
		k.Spec.Backup = nil
	})
	if got := note(); got != "" {
		t.Errorf("without backups noted is %q", got)
	}
}

// TestRequired: a change that waits has a backup tried at once, also while the schedule asks for none and after a failure, and then as any
// other; a backup that was verified since answers it.
func TestRequired(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeEtcdVersion}
		k.Spec.Backup.Schedule = "0 0 29 2 *"
		k.Spec.Backup.Verify = controlplanev1.BackupVerifyDaily
	}, hostStore())
	now := time.Now().UTC().Truncate(time.Second)
	put(t, s.catalog(uid), now.Add(-2*time.Hour), true)
	kcp, _, _ := s.look()
	attempts := func() int { return s.known[key].failures }
	require := func(at time.Time) {
		s.change(kcp, func(k *controlplanev1.KubeadmControlPlane) {
			k.Annotations[controlplanev1.BackupRequiredAnnotation] = at.Format(time.RFC3339)
		})
	}
	if attempts() != 0 {
		t.Fatalf("%d attempts, and nothing asks for one", attempts())
	}
	require(now.Add(-2 * time.Hour))
	if kcp, _, _ = s.look(); attempts() != 0 {
		t.Errorf("%d attempts, and the backup of that second answers", attempts())
	}
	require(now)
	s.look()
	if kcp, _, _ = s.look(); attempts() != 1 || kcp.Status.Backup.LastAttempt.Reason != controlplanev1.BackupFailed {
		t.Errorf("%d attempts after two looks, and one was required: %+v", attempts(), kcp.Status.Backup.LastAttempt)
	}
	require(now.Add(time.Minute))
	if kcp, _, _ = s.look(); attempts() != 2 {
		t.Errorf("%d attempts, and another was required after the failure", attempts())
	}
	l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: s.catalog(uid), known: &known{}}
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !l.proves(now) {
		t.Error("the backup that is required would not be verified")
	}
	kcp.Spec.Backup.Before = nil
	if l.proves(now) || l.isRequired(now) {
		t.Error("nothing asks for backups before changes, and one is required")
	}
}

// TestTooLate: where taking and verifying a backup lasts longer than it may be old, that is reported, and the next is not taken at once:
// each would come too late. One that takes less, or may be older, is.
func TestTooLate(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}
		k.Spec.Backup.MaxAgeBefore = &metav1.Duration{Duration: 10 * time.Minute}
	}, hostStore())
	now := time.Now().UTC().Truncate(time.Second)
	began := now.Add(-15 * time.Minute)
	put(t, s.catalog(uid), began, true)
	kcp, _, _ := s.look()
	kcp.Annotations[controlplanev1.BackupRequiredAnnotation] = now.Format(time.RFC3339)
	for _, test := range []struct {
		took, most, later time.Duration
		tried             bool
	}{
		{15 * time.Minute, 10 * time.Minute, 0, false},
		{15 * time.Minute, 10 * time.Minute, pause - time.Second, false},
		{15 * time.Minute, 10 * time.Minute, pause, true},
		{10 * time.Minute, 10 * time.Minute, 0, false},
		{9 * time.Minute, 10 * time.Minute, 0, true},
		{15 * time.Minute, 20 * time.Minute, 0, true},
	} {
		kcp.Spec.Backup.MaxAgeBefore.Duration = test.most
		l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: s.catalog(uid), known: &known{attempted: began, took: test.took}}
		if err := l.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tried := l.isRequired(now.Add(test.later)); tried != test.tried {
			t.Errorf("it took %s and may be %s old, %s later: tried is %t", test.took, test.most, test.later, tried)
		}
	}
	spec := &controlplanev1.BackupSpec{Before: kcp.Spec.Backup.Before, MaxAgeBefore: &metav1.Duration{Duration: 10 * time.Minute}}
	text := tooLate(spec, 15*time.Minute)
	l := &look{timetable: daily(t), known: &known{}}
	status := controlplanev1.BackupStatus{
		LastVerified: controlplanev1.VerifiedBackup{Name: "b1", Time: metav1.NewTime(began)},
		LastAttempt:  controlplanev1.BackupAttempt{Reason: controlplanev1.BackupVerified, Message: text},
	}
	c := l.current(status, now)
	for _, want := range []string{"the last attempt (Verified): it took 15m0s", "maxAgeBefore is 10m0s"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("%s: %s; want %s", c.Reason, c.Message, want)
		}
	}
	if tooLate(&controlplanev1.BackupSpec{}, 15*time.Minute) != "" {
		t.Error("without changes that wait nothing comes too late")
	}
}

// daily is a schedule.
func daily(t *testing.T) backup.Timetable {
	t.Helper()
	parsed, err := backup.ParseSchedule("@daily", "")
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestRequiredAlone: who reads the annotation reads times only.
func TestRequiredAlone(t *testing.T) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Backup = &controlplanev1.BackupSpec{Before: []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}}
	kcp.Annotations = map[string]string{controlplanev1.BackupRequiredAnnotation: "now"}
	l := &look{object: kcp, spec: kcp.Spec.Backup, known: &known{}}
	if l.isRequired(time.Now()) {
		t.Error("what is no time asks for a backup")
	}
}
