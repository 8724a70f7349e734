package recoveries

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// seeks creates a recovery that nothing was done for, has it looked at twice, and returns it with what the second look asks for.
func (s *scene) seeks(change func(*backupv1alpha1.EtcdRecovery)) (*backupv1alpha1.EtcdRecovery, ctrl.Result) {
	s.t.Helper()
	r := s.recovery(func(r *backupv1alpha1.EtcdRecovery) {
		r.Annotations, r.CreationTimestamp = nil, metav1.Now()
		if change != nil {
			change(r)
		}
	})
	var asked ctrl.Result
	for range 2 {
		var err error
		if asked, err = s.by.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.c.Get(s.t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		s.t.Fatal(err)
	}
	return r, asked
}

// TestSeek: a seed can be approved once the whole snapshot was read as the machine will read it, and is what the store says of it.
func TestSeek(t *testing.T) {
	s := newScene(t)
	r, _ := s.seeks(nil)
	seed := observe.SeedOf(r)
	if seed == nil || seed.Backup != backupName || seed.Revision != 7 || r.Status.Digest != observe.RecoveryDigest(r, "cluster") {
		t.Fatalf("seed %+v, digest %q, conditions %+v", seed, r.Status.Digest, r.Status.Conditions)
	}
	if is := conditions.Get(r, backupv1alpha1.RecoveredCondition); is.Reason != backupv1alpha1.RecoveryUnapproved {
		t.Errorf("%+v", is)
	}
}

// TestSeekTakesOneBackup: after a failure the backup that was taken of the survivor is used, and no other is taken: here no member answers any
// more.
func TestSeekTakesOneBackup(t *testing.T) {
	s := newScene(t)
	r, _ := s.seeks(func(r *backupv1alpha1.EtcdRecovery) {
		r.Spec.Backup, r.Spec.Survivor = "", best
		r.Annotations = map[string]string{backupv1alpha1.RecoveryTakenAnnotation: `{"backup":"` + backupName + `","member":"demo-cp-1"}`}
	})
	if seed := observe.SeedOf(r); seed == nil || seed.Backup != backupName || seed.Member != "demo-cp-1" {
		t.Errorf("seed %+v, conditions %+v", seed, r.Status.Conditions)
	}
}

// TestSeekRefuses: what could not be restored after the machines are gone is refused before a person is asked.
func TestSeekRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		scene  func(*scene)
		change func(*backupv1alpha1.EtcdRecovery)
		reason string
		says   string
		again  time.Duration
	}{
		"no identity": {nil, func(r *backupv1alpha1.EtcdRecovery) { r.Spec.IdentitySecretRef.Name = "" },
			backupv1alpha1.RecoverySeedRefused, "is encrypted: set spec.identitySecretRef", 0},
		"another identity": {(*scene).losesIdentity, nil, backupv1alpha1.RecoverySeedRefused, "no identity of the secret", 0},
		"no age identity":  {func(s *scene) { s.setIdentity("HUNTER2") }, nil, backupv1alpha1.RecoverySeedRefused, "must be an age identity", 0},
		"the identity comes later": {nil, func(r *backupv1alpha1.EtcdRecovery) { r.Spec.IdentitySecretRef.Name = "later" },
			backupv1alpha1.RecoverySeeking, "later", time.Second},
		"a flipped bit": {(*scene).flipsBit, nil, backupv1alpha1.RecoverySeedDamaged,
			"reading the snapshot of backup " + backupName + ": the archive in the store is not the one", seldom},
		"another archive": {func(s *scene) { s.replaceArchive(s.archive(strings.ToUpper(snapshot))) }, nil,
			backupv1alpha1.RecoverySeedRefused, "and its manifest says", 0},
		"a seed of somebody": {nil, func(r *backupv1alpha1.EtcdRecovery) {
			r.Annotations = map[string]string{backupv1alpha1.RecoverySeedAnnotation: `{"backup":"` + backupName + `","sha256":"ab"}`}
		}, backupv1alpha1.RecoverySeedRefused, "is not what the store says", 0},
		"a path": {nil, func(r *backupv1alpha1.EtcdRecovery) {
			r.Spec.Backup = ""
			r.Annotations = map[string]string{backupv1alpha1.RecoverySeedAnnotation: `{"backup":"../other/` + backupName + `","sha256":"ab"}`}
		}, backupv1alpha1.RecoverySeeking, "invalid name of a backup", soon},
		"an encrypted survivor": {(*scene).encrypts, func(r *backupv1alpha1.EtcdRecovery) {
			r.Spec.Backup, r.Spec.Survivor, r.Spec.IdentitySecretRef.Name = "", best, ""
		}, backupv1alpha1.RecoverySeedRefused, "the backup of the survivor is encrypted", 0},
	} {
		s := newScene(t)
		if test.scene != nil {
			test.scene(s)
		}
		r, asked := s.seeks(test.change)
		is := conditions.Get(r, backupv1alpha1.RecoveredCondition)
		if is == nil || is.Reason != test.reason || !strings.Contains(is.Message, test.says) || strings.Contains(is.Message, "HUNTER2") {
			t.Errorf("%s: %+v", name, is)
		}
		if r.Status.Digest != "" || asked.RequeueAfter != test.again {
			t.Errorf("%s: digest %q, looked at again after %s", name, r.Status.Digest, asked.RequeueAfter)
		}
	}
}

// TestIdentity: a text that is no name leads nowhere in the store.
func TestIdentity(t *testing.T) {
	s := newScene(t)
	kcp := &controlplanev1.KubeadmControlPlane{}
	r := &recovery{EtcdRecovery: s.recovery(nil), group: kcp}
	if err := s.by.find(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"": "cluster", "../other": "cluster", "moved": "moved"} {
		r.group.SetAnnotations(map[string]string{controlplanev1.BackupIdentityAnnotation: id})
		if got := r.identity(); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	r.Spec.FormerClusterUID = "former"
	if got := r.identity(); got != "former" {
		t.Errorf("of a former cluster: %q", got)
	}
}

// TestSeekFormer: in a new management cluster the backup is looked for under the UID that its Cluster had in the former one, and what is
// approved tells both apart.
func TestSeekFormer(t *testing.T) {
	s := newScene(t)
	cluster := &clusterv1.Cluster{}
	if err := s.c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.UID = "new"
	if err := s.c.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	r, _ := s.seeks(func(r *backupv1alpha1.EtcdRecovery) { r.Spec.FormerClusterUID = "cluster" })
	seed := observe.SeedOf(r)
	if seed == nil || seed.Backup != backupName || r.Status.Digest == "" {
		t.Fatalf("seed %+v, conditions %+v", seed, r.Status.Conditions)
	}
	r.Spec.FormerClusterUID = ""
	if r.Status.Digest == observe.RecoveryDigest(r, "new") {
		t.Error("the digest is that of a recovery of this cluster's own backup")
	}
}

// setIdentity replaces the identity in the secret.
func (s *scene) setIdentity(text string) {
	s.t.Helper()
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"},
		Data: map[string][]byte{backupv1alpha1.IdentityKey: []byte(text)}}
	if err := s.c.Update(s.t.Context(), key); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) losesIdentity() {
	other, err := age.GenerateX25519Identity()
	if err != nil {
		s.t.Fatal(err)
	}
	s.setIdentity(other.String())
}

// flipsBit damages the end of the archive.
func (s *scene) flipsBit() {
	data := s.archive(snapshot)
	data[len(data)-1] ^= 1
	s.replaceArchive(data)
}

// archive is one with a snapshot, for the identity of the scene.
func (s *scene) archive(content string) []byte {
	s.t.Helper()
	var to bytes.Buffer
	if _, err := s.write(&to, content); err != nil {
		s.t.Fatal(err)
	}
	return to.Bytes()
}

// replaceArchive replaces that of the backup, and nothing beside it.
func (s *scene) replaceArchive(data []byte) {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.by.Stores.Folder, "*", "*", "*", backupName, "archive*"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("%d archives, %v", len(found), err)
	}
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// encrypts has the group's backups encrypted.
func (s *scene) encrypts() {
	s.t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo-cp"}, kcp); err != nil {
		s.t.Fatal(err)
	}
	kcp.Spec.Backup = &controlplanev1.BackupSpec{Encryption: controlplanev1.BackupEncryption{
		Recipients: []string{s.identity.Recipient().String()},
	}}
	if err := s.c.Update(s.t.Context(), kcp); err != nil {
		s.t.Fatal(err)
	}
}

// TestListen: the server answers once its address is free, or there is one, and nothing ends while it is not.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Controller: newScene(t).by, Bind: taken.Addr().String()}
	got := make(chan net.Listener, 1)
	go func() { got <- s.listen(t.Context()) }()
	select {
	case <-got:
		t.Fatal("it listens at an address that is taken")
	case <-time.After(listenAgain + 200*time.Millisecond): // it was tried twice
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	listener := <-got
	if listener == nil || listener.Addr().String() != s.Bind {
		t.Fatalf("listens at %v", listener)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}
