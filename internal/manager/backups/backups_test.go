package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/manager/kinds"
)

const uid = "0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a"

var key = client.ObjectKey{Namespace: "team", Name: "demo-cp"}

// scene is a management cluster without a managed one: whatever asks etcd fails.
type scene struct {
	*Controller
	t *testing.T
	c client.Client
}

func newScene(t *testing.T, change func(*controlplanev1.KubeadmControlPlane), more ...client.Object) *scene {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "demo", UID: uid}}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "kcp",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	kcp.Spec.Backup = &controlplanev1.BackupSpec{StoreRef: controlplanev1.BackupStoreReference{Name: "host"}, Schedule: "@daily"}
	kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	if change != nil {
		change(kcp)
	}
	c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithStatusSubresource(kcp).WithObjects(append(more, cluster, kcp)...).Build()
	folder := t.TempDir()
	return &scene{t: t, c: c, Controller: &Controller{
		Client: c, APIReader: c, Kind: stacked.New(), known: map[client.ObjectKey]*known{},
		Options: Options{Stores: clusterbackup.Opener{Reader: c, Folder: folder}, Slots: make(chan struct{}, 1), Scratch: t.TempDir()},
	}}
}

func hostStore() client.Object {
	return &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "host"},
		Spec: backupv1alpha1.BackupStoreSpec{Folder: &backupv1alpha1.FolderStore{}}}
}

// look reconciles once, and returns the control plane and its condition as text.
func (s *scene) look() (*controlplanev1.KubeadmControlPlane, string, ctrl.Result) {
	s.t.Helper()
	result, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		s.t.Fatal(err)
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := s.c.Get(s.t.Context(), key, kcp); err != nil {
		s.t.Fatal(err)
	}
	if c := conditions.Get(kcp, controlplanev1.BackupCurrentCondition); c != nil {
		return kcp, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), result
	}
	return kcp, "", result
}

// TestReports: what keeps a backup from being taken stands in the condition, and what is not to be backed up has none.
func TestReports(t *testing.T) {
	bucket := func(endpoint string) client.Object {
		return &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "host"},
			Spec: backupv1alpha1.BackupStoreSpec{S3: &backupv1alpha1.S3Store{
				S3Bucket:             backupv1alpha1.S3Bucket{Endpoint: endpoint, Bucket: "backups"},
				CredentialsSecretRef: backupv1alpha1.SecretReference{Name: "credentials"},
			}}}
	}
	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "credentials"},
		Data: map[string][]byte{"accessKeyID": []byte("id")}}
	for name, test := range map[string]struct {
		change func(*controlplanev1.KubeadmControlPlane)
		more   []client.Object
		want   string
	}{
		"no spec.backup":  {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Backup = nil }, nil, ""},
		"not initialised": {func(k *controlplanev1.KubeadmControlPlane) { k.Status.Initialization.ControlPlaneInitialized = nil }, nil, ""},
		"paused": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, nil, ""},
		"no store": {nil, nil, "False StoreUnusable: opening BackupStore host: there is none in namespace team"},
		"no secret": {nil, []client.Object{bucket("https://x")},
			"False StoreUnusable: opening BackupStore host: there is no secret credentials"},
		"half a secret": {nil, []client.Object{bucket("https://x"), credentials},
			"False StoreUnusable: opening BackupStore host: secret credentials has no secretAccessKey"},
		"etcd does not answer": {nil, []client.Object{hostStore()}, "False Never: there is no verified backup yet; the last attempt (Failed): "},
		"no etcd of ours": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "x", Kind: "EtcdCluster", Name: "e"}
		}, []client.Object{hostStore()}, "False Failed: etcd does not run on its machines"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.change, test.more...)
			_, text, _ := s.look()
			if text == "" != (test.want == "") || !strings.HasPrefix(text, test.want) {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
}

// TestWaits: what a backup waits for is said in place of what an attempt before met.
func TestWaits(t *testing.T) {
	status := controlplanev1.BackupStatus{LastAttempt: controlplanev1.BackupAttempt{Reason: controlplanev1.BackupFailed, Message: "why"}}
	for want, l := range map[string]*look{
		"there is no verified backup yet; the last attempt (Failed): why": {},
		"there is no verified backup yet; etcd member b is joining; a backup waits until it votes or is gone": {
			waits: fmt.Errorf("etcd member b is joining; %w", backup.ErrJoining),
		},
	} {
		if got := l.current(status, time.Now()); got.Reason != controlplanev1.BackupNever || got.Message != want {
			t.Errorf("%s: %q, want %q", got.Reason, got.Message, want)
		}
	}
}

// TestRetries: a failed attempt is tried again after a minute, and not with each look; a request is tried at once, and once. The identity
// is written once, and kept.
func TestRetries(t *testing.T) {
	s := newScene(t, nil, hostStore())
	kcp, _, result := s.look()
	first := kcp.Status.Backup.LastAttempt
	if first.Reason != controlplanev1.BackupFailed || first.Message == "" || result.RequeueAfter < 50*time.Second ||
		result.RequeueAfter > time.Minute {
		t.Errorf("%+v, again after %s", first, result.RequeueAfter)
	}
	if id := kcp.Annotations[controlplanev1.BackupIdentityAnnotation]; id != uid {
		t.Errorf("the identity is %q", id)
	}
	attempts := func() int { return s.known[key].failures }
	if _, _, _ = s.look(); attempts() != 1 {
		t.Errorf("%d attempts after two looks", attempts())
	}
	before := kcp.DeepCopy()
	kcp.Annotations[controlplanev1.BackupRequestedAnnotation] = time.Now().UTC().Format(time.RFC3339Nano)
	if err := s.c.Patch(t.Context(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.look()
	if s.look(); attempts() != 2 {
		t.Errorf("%d attempts after a request and two looks", attempts())
	}
	// After a move the Cluster is another one.
	cluster := &clusterv1.Cluster{}
	if err := s.c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: "demo"}, cluster); err != nil {
		t.Fatal(err)
	}
	if _, id, err := s.identity(t.Context(), kcp, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "another"}}); err != nil || id != uid {
		t.Errorf("after a move the identity is %q, %v", id, err)
	}
	// Backups that are not wanted any more have no condition.
	before = kcp.DeepCopy()
	kcp.Spec.Backup = nil
	if err := s.c.Patch(t.Context(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if kcp, text, _ := s.look(); text != "" || kcp.Status.Backup.LastAttempt.Reason == "" {
		t.Errorf("%q, %+v", text, kcp.Status.Backup)
	}
}

// put stores a backup whose snapshot is no etcd's, as if it was verified.
func put(t *testing.T, c clusterbackup.Catalog, taken time.Time, verified bool) string {
	t.Helper()
	return putOf(t, c, "demo", taken, verified)
}

// putOf stores one whose manifest has a name of a Cluster.
func putOf(t *testing.T, c clusterbackup.Catalog, cluster string, taken time.Time, verified bool) string {
	t.Helper()
	name := backup.Name(taken, "test")
	m := backup.Manifest{
		Version: backup.FormatVersion, Name: name, Cluster: backup.Cluster{UID: c.UID, Namespace: "team", Name: cluster}, Taken: taken, Keys: 1,
		Witnesses: []backup.Witness{{Revision: 5, CompactRevision: 1, Hash: 7}},
	}
	result, err := c.Save(t.Context(), name, func(to io.Writer) (*clusterbackup.Taken, error) {
		w, err := archive.NewWriter(to, nil)
		if err != nil {
			return nil, err
		}
		_, err = w.Write([]byte("snapshot"))
		manifest, finished := w.Finish(m)
		return &clusterbackup.Taken{Manifest: manifest}, errors.Join(err, finished)
	})
	if err != nil {
		t.Fatal(err)
	}
	if verified {
		e, err := c.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		r := &backup.Restored{Witness: m.Witnesses[0], Keys: 1, Latest: 5, Snapshot: result.Manifest.Snapshot}
		if _, err := c.Verify(t.Context(), e, clusterbackup.Proof{Restored: r, Now: taken}); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// TestAhead: a verified backup with a time in the future is named and counts for nothing: neither the status nor the schedule nor a
// person's request nor retention takes it for the newest.
func TestAhead(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.Retention.Last = ptr.To(int32(1))
		k.Spec.Backup.Verify = controlplanev1.BackupVerifyDaily
	}, hostStore())
	now := time.Now().UTC().Truncate(time.Second)
	good := put(t, s.catalog(uid), now.Add(-50*time.Hour), true)
	put(t, s.catalog(uid), now.Add(-60*time.Hour), true)
	ahead := put(t, s.catalog(uid), now.Add(1000*time.Hour), true)
	kcp, text, _ := s.look()
	if kcp.Status.Backup.LastVerified.Name != good || !strings.Contains(text, "False Overdue") || !strings.Contains(text, ahead) {
		t.Errorf("the status has %+v: %s", kcp.Status.Backup, text)
	}
	if s.known[key].failures != 1 {
		t.Errorf("%d attempts, and the newest backup that counts is older than a day", s.known[key].failures)
	}
	l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: s.catalog(uid), known: &known{}}
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	kcp.Annotations[controlplanev1.BackupRequestedAnnotation] = now.Format(time.RFC3339Nano)
	if !l.asked(now) || !l.proves(now) {
		t.Errorf("asked for: %t, would be verified: %t", l.asked(now), l.proves(now))
	}
	s.retain(t.Context(), l)
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(l.entries) != 2 || l.entries[0].Name != good || l.entries[1].Name != ahead {
		t.Errorf("retention left %d backups, want %s and %s", len(l.entries), good, ahead)
	}
}

// TestHeld: retention keeps the backups that recoveries name or have found, until they have ended.
func TestHeld(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Backup.Retention.Last = ptr.To(int32(1)) }, hostStore())
	now := time.Now().UTC().Truncate(time.Second)
	var names []string
	for age := range 5 {
		names = append(names, put(t, s.catalog(uid), now.Add(-time.Duration(age+1)*time.Hour), true))
	}
	recovery := func(name, of string, annotations map[string]string) {
		t.Helper()
		r := &backupv1alpha1.EtcdRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Annotations: annotations}}
		r.Spec.ClusterName, r.Spec.Backup = "demo", of
		if err := s.c.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	recovery("named", names[1], nil)
	recovery("found", "", map[string]string{backupv1alpha1.RecoverySeedAnnotation: fmt.Sprintf(`{"backup":%q,"sha256":"ab"}`, names[2])})
	recovery("ended", names[3], map[string]string{backupv1alpha1.RecoveryEndedAnnotation: "x"})
	kcp, _, _ := s.look()
	l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: s.catalog(uid), known: &known{}}
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.retain(t.Context(), l)
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range l.entries {
		left = append(left, e.Name)
	}
	if want := []string{names[2], names[1], names[0]}; !slices.Equal(left, want) {
		t.Errorf("retention left %q, want %q", left, want)
	}
}

// keep is a store that forbids to delete.
type keep struct{ store.Store }

// Delete implements store.Store.
func (keep) Delete(context.Context, string) error {
	return fmt.Errorf("deleting: %w", store.ErrForbidden)
}

// TestStanding: the status tells of the newest verified backup, whatever came after it, and says when that is overdue; retention keeps it.
func TestStanding(t *testing.T) {
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Backup.Retention.Last = ptr.To(int32(1)) }, hostStore())
	opened, done, err := s.Stores.Open(t.Context(), key.Namespace, controlplanev1.BackupStoreReference{Name: "host"})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	catalog := clusterbackup.Catalog{Store: opened, UID: uid}
	now := time.Now().UTC().Truncate(time.Second)
	put(t, catalog, now.Add(-3*time.Hour), true)
	good := put(t, catalog, now.Add(-2*time.Hour), true)
	bad := put(t, catalog, now.Add(-time.Minute), false)
	kcp, text, _ := s.look()
	if kcp.Status.Backup.LastVerified.Name != good || kcp.Status.Backup.LastVerified.Revision != 5 ||
		kcp.Status.Backup.Next.Time.Before(now) || !strings.HasPrefix(text, "True Verified: recoverable from "+good) {
		t.Errorf("%+v, %s", kcp.Status.Backup, text)
	}
	if n := kcp.Status.Backup.LastAttempt; n.Reason != "" {
		t.Errorf("nothing was due, and tried was %+v", n)
	}
	l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: catalog, known: &known{}}
	list := func() string {
		if l.entries, err = catalog.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range l.entries {
			names = append(names, e.Name)
		}
		return strings.Join(names, " ")
	}
	list()
	l.catalog.Store = keep{opened}
	if s.retain(t.Context(), l); !l.kept || len(strings.Fields(list())) != 3 {
		t.Errorf("without the right to delete: said %t, left %s", l.kept, list())
	}
	l.catalog.Store = opened
	if s.retain(t.Context(), l); l.kept || list() != good+" "+bad {
		t.Errorf("retention left %s, want the newest verified %s and the newest %s", list(), good, bad)
	}
	timetable, err := backup.ParseSchedule("@hourly", "")
	if err != nil {
		t.Fatal(err)
	}
	l.timetable = timetable
	if c := l.current(controlplanev1.BackupStatus{LastVerified: kcp.Status.Backup.LastVerified},
		now.Add(2*time.Hour)); c.Reason != controlplanev1.BackupOverdue {
		t.Errorf("after four hours of an hourly schedule: %+v", c)
	}
	l.spec = &controlplanev1.BackupSpec{Verify: controlplanev1.BackupVerifyDaily}
	if l.proves(now) || !l.proves(now.Add(23*time.Hour)) {
		t.Errorf("verified daily, and the newest verified is 2 hours old: %t, a day later %t", l.proves(now), l.proves(now.Add(23*time.Hour)))
	}
}

// TestFiles: an archive has the cluster's secrets, those that kubeadm's files name, and the objects; fingerprints are of certificates only.
func TestFiles(t *testing.T) {
	secret := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}, Data: data}
	}
	from := bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "encryption", Key: "a"}}
	file := bootstrapv1.File{Path: "/etc/b", ContentFrom: from}
	s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{file} },
		secret("demo-ca", map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")}),
		secret("encryption", map[string][]byte{".config": []byte("e")}), secret("other-ca", map[string][]byte{"tls.key": []byte("o")}))
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := s.c.Get(t.Context(), key, kcp); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "demo"}}
	found := &observe.EtcdMembers{Object: kcp, Cluster: cluster}
	files, fingerprints, err := Files(t.Context(), s.c, s.c, stacked.New().Type().GroupVersionKind, found)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"secrets/demo-ca/tls.key", "secrets/encryption/_.config", "objects/KubeadmControlPlane/demo-cp.json", "objects/Cluster/demo.json",
	} {
		if len(files[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	if len(files) != 5 || len(fingerprints) != 1 || len(fingerprints["demo-ca"]) != 64 {
		t.Errorf("%d files: %v; fingerprints %v", len(files), files, fingerprints)
	}
	for name := range files {
		if !backup.IsFile(name) {
			t.Errorf("%s cannot be in an archive", name)
		}
	}
}

// TestSeedPort: the port at which snapshots are handed out is the one that the manifests name, and no other listens there.
func TestSeedPort(t *testing.T) {
	s, fs := Settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(fs)
	_, port, err := net.SplitHostPort(s.SeedBind)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"config/manager/manager.yaml", "charts/quorate/templates/manager.yaml"} {
		manifest, err := os.ReadFile(filepath.Join("../../..", path))
		if err != nil {
			t.Fatal(err)
		}
		named := strings.Contains(string(manifest), "- name: seeds\n          containerPort: "+port+"\n")
		if !named || strings.Count(string(manifest), port) != 1 {
			t.Errorf("%s does not name the port %s for seeds alone", path, port)
		}
	}
	if s.SeedAddress = "none"; s.Check() != nil || s.SeedAddress != "" {
		t.Errorf("none is the address %q", s.SeedAddress)
	}
	if s.SeedAddress = "seeds.example.com"; s.Check() == nil {
		t.Error("an address without a port is taken")
	}
}

// TestSettings: flags that cannot be worked with are refused by name.
func TestSettings(t *testing.T) {
	good := Settings{Limits: Settings{}.Limits, AtOnce: 2}
	good.Limits.Memory, good.Limits.Disk = 1<<30, 1<<30
	for want, change := range map[string]func(*Settings){
		"":                          func(s *Settings) { s.Refuse = []string{"10.96.0.0/12", "fd00::/8"} },
		`--backup-refuse="10.96"`:   func(s *Settings) { s.Refuse = []string{"10.96"} },
		"--backups-at-once=0":       func(s *Settings) { s.AtOnce = 0 },
		"--backup-scratch-memory=1": func(s *Settings) { s.Limits.Memory = 1 },
		"--backup-scratch-disk=1":   func(s *Settings) { s.Limits.Disk = 1 },
	} {
		s := good
		change(&s)
		if err := s.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
