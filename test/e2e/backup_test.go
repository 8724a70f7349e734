//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/local/embed"
)

// listed is a backup as `quorate backup list -o json` has it.
type listed struct {
	Name      string `json:"name"`
	Revision  int64  `json:"revision"`
	SizeBytes int64  `json:"sizeBytes"`
	Verified  bool   `json:"verified"`
	Encrypted bool   `json:"encrypted"`
	Etcd      string `json:"etcd"`
	Changed   string `json:"changed"`
}

func (e *environment) backups(t *testing.T, name string) []listed {
	t.Helper()
	var all []listed
	if err := json.Unmarshal([]byte(e.quorate(t, "backup", "list", name, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// place is where a life's backups go.
type place struct {
	cluster string
	// spec is the store's; nil: the cluster has backups from the beginning, in the store and with the identity of the environment.
	spec *backupv1alpha1.BackupStoreSpec
	// folder holds a folder for each identity.
	folder string
}

// backup: the life of the backups that a cluster of `quorate up` has by itself, in the state folder.
func backup(t *testing.T, e *environment) {
	e.livesOfBackups(t, place{"tango", nil, filepath.Join(embed.BackupFolder(e.state), "default", embed.BackupStore)})
}

// backupS3: the same in a bucket of a real S3 server, versitygw, which serves a folder. QUORATE_S3_SERVER is its path.
func backupS3(t *testing.T, e *environment) {
	path := os.Getenv("QUORATE_S3_SERVER")
	if path == "" {
		t.Fatal("QUORATE_S3_SERVER names no versitygw: run this by make e2e RUN=backup-s3")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, bucketName), 0o700); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(path, "--port", address, "--access", "id", "--secret", "secret-key", "--quiet", "posix", "--sidecar", t.TempDir(),
		"--versioning-dir", t.TempDir(), data)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	bucket, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4("id", "secret-key", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bucket keeps versions", patience, func() string {
		if err := bucket.EnableVersioning(context.Background(), bucketName); err != nil {
			return err.Error()
		}
		return ""
	})
	e.livesOfBackups(t, place{"uniform", &backupv1alpha1.BackupStoreSpec{S3: &backupv1alpha1.S3Store{
		S3Bucket:             backupv1alpha1.S3Bucket{Endpoint: "http://" + address, Bucket: bucketName, Prefix: "e2e", PathStyle: ptr.To(true)},
		CredentialsSecretRef: backupv1alpha1.SecretReference{Name: "bucket"},
	}}, filepath.Join(data, bucketName, "e2e")})
	for object := range bucket.ListObjectsIter(context.Background(), bucketName, minio.ListObjectsOptions{Recursive: true}) {
		t.Errorf("after the cluster went the bucket has %s, %v", object.Key, object.Err)
	}
}

// bucketName is the bucket of the S3 server.
const bucketName = "backups"

// livesOfBackups: a cluster's etcd is backed up by the schedule and on request into a store, while writes go on without a failure; each
// backup is proven, also from the store alone with the identity, damage is found, retention keeps what it should, and the newest verified
// backup is not deleted by mistake.
func (e *environment) livesOfBackups(t *testing.T, to place) {
	name := to.cluster
	var key string
	if to.spec == nil {
		e.up(t, name, "--replicas", "3", "--backup", "@daily")
	} else {
		e.up(t, name, "--replicas", "3")
	}
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	if to.spec != nil {
		key = e.wantsBackups(t, name, *to.spec)
	}
	c, _ := e.workload(t, name)
	writes, done := newWriter(c), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(done); writes.run(ctx) }()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Backup.Retention = controlplanev1.BackupRetention{Last: ptr.To(int32(2))}
	})
	eventually(t, "the first backup is taken and verified", patience, func() string {
		kcp := e.controlPlane(t, name)
		if c := conditions.Get(kcp, controlplanev1.BackupCurrentCondition); c == nil || c.Status != metav1.ConditionTrue {
			return "BackupCurrent: " + conditionText(c)
		}
		return ""
	})
	before := ""
	for range 3 {
		start := time.Now()
		out := strings.TrimSpace(e.quorate(t, "backup", "now", name))
		t.Logf("FIGURE backup now: %.1f s: %s", time.Since(start).Seconds(), out)
		if out == before {
			t.Errorf("a backup that was taken before it was asked for is told as the answer: %s", out)
		}
		before = out
	}
	cancel()
	<-done
	t.Logf("FIGURE writes while four backups were taken: %s", writes)
	if writes.failed > 0 {
		t.Errorf("%d writes failed: %q", writes.failed, writes.errors)
	}
	if len(writes.acknowledged) == 0 {
		t.Error("no write was acknowledged")
	}
	all := e.backups(t, name)
	if len(all) != 2 || !all[0].Verified || !all[1].Verified || !all[1].Encrypted || all[1].Revision <= all[0].Revision || all[1].Etcd == "" {
		t.Fatalf("the store has %+v, want the last two, verified", all)
	}
	newest := all[1].Name
	if status := e.controlPlane(t, name).Status.Backup; status.LastVerified.Name != newest ||
		status.LastAttempt.Reason != controlplanev1.BackupVerified || status.Next.IsZero() {
		t.Errorf("the status says %+v, the newest is %s", status, newest)
	}
	if out := e.quorate(t, "status", name); !strings.Contains(out, "recoverable from "+newest+", taken ") {
		t.Errorf("quorate status does not tell of %s:\n%s", newest, out)
	}
	e.provesBackups(t, to, all, key)
	if to.spec == nil {
		e.takesLastBackup(t, name, to.folder)
	} else {
		e.findsDeleted(t, name, newest, key)
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Backup.DeletionPolicy = controlplanev1.BackupsDelete
		})
		eventually(t, "the control plane is held for its backups", patience, func() string {
			if kcp := e.controlPlane(t, name); !slices.Contains(kcp.Finalizers, controlplanev1.BackupsFinalizer) {
				return strings.Join(kcp.Finalizers, " ")
			}
			return ""
		})
		e.takeDown(t, name)
	}
}

// takesLastBackup deletes a cluster with spec.backup.lastBackup: a backup that was taken after that is in the store, verified, and so is
// the one before.
func (e *environment) takesLastBackup(t *testing.T, name, folder string) {
	t.Helper()
	before, id := e.backups(t, name), e.controlPlane(t, name).Annotations[controlplanev1.BackupIdentityAnnotation]
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Backup.LastBackup = controlplanev1.LastBackupRequired
	})
	began := time.Now().Truncate(time.Second)
	e.takeDown(t, name)
	t.Logf("FIGURE deletion with a last backup: %.1f s", time.Since(began).Seconds())
	found, _ := filepath.Glob(filepath.Join(folder, id, "*", "manifest.json"))
	if len(found) != len(before)+1 {
		t.Fatalf("before the deletion the store had %+v, after it %q", before, found)
	}
	last := filepath.Dir(slices.Max(found))
	manifest, proof := storedBackup(t, last)
	sum := sha256.Sum256(readFile(t, last, "archive"))
	if manifest.Taken.Before(began) || !proof.Proves(manifest) || hex.EncodeToString(sum[:]) != manifest.Archive.SHA256 {
		t.Errorf("the cluster was deleted at %s; its last backup %s was taken at %s and proven: %t", began, manifest.Name, manifest.Taken,
			proof.Proves(manifest))
	}
	if manifest.Revision() <= before[len(before)-1].Revision {
		t.Errorf("the last backup is of revision %d, the one before of %d", manifest.Revision(), before[len(before)-1].Revision)
	}
}

// findsDeleted deletes the newest backup in a bucket that keeps versions: it is listed as deleted, and read as before; nothing is deleted
// twice; and another backup takes its place.
func (e *environment) findsDeleted(t *testing.T, name, newest, key string) {
	t.Helper()
	e.quorate(t, "backup", "delete", name, newest, "--yes")
	at := func(b listed) bool { return b.Name == newest }
	left := e.backups(t, name)
	if i := slices.IndexFunc(left, at); i < 0 || left[i].Changed != "deleted" || !left[i].Verified {
		t.Fatalf("after the newest backup %s was deleted the list has %+v", newest, left)
	}
	to := filepath.Join(t.TempDir(), "archive")
	e.quorate(t, "backup", "get", name, newest, "--to", to)
	if out := e.quorate(t, "backup", "verify", name, newest, "--identity", key); !strings.Contains(out, "an old version was read") {
		t.Errorf("verifying what was deleted: %s", out)
	}
	if out, err := e.try("backup", "delete", name, newest, "--yes"); err == nil || !strings.Contains(err.Error(), "was deleted already") {
		t.Errorf("deleted twice: %v\n%s", err, out)
	}
	e.quorate(t, "backup", "now", name)
	left = e.backups(t, name)
	if i := slices.IndexFunc(left, at); i >= 0 || len(left) != 1 || left[0].Changed != "" || !left[0].Verified {
		t.Errorf("after another backup the list has %+v", left)
	}
	if out := e.quorate(t, "backup", "list", name, "--deleted"); !strings.Contains(out, newest) {
		t.Errorf("--deleted leaves %s out:\n%s", newest, out)
	}
}

// wantsBackups makes a store of a cluster's own and has backups go there. It returns the file with the identity that decrypts them.
func (e *environment) wantsBackups(t *testing.T, name string, spec backupv1alpha1.BackupStoreSpec) string {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(key, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bucket"},
		Data:       map[string][]byte{backupv1alpha1.AccessKeyID: []byte("id"), backupv1alpha1.SecretAccessKey: []byte("secret-key")},
	}
	store := &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bucket"}, Spec: spec}
	for _, object := range []client.Object{secret, store} {
		if err := e.management(t).Create(context.Background(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.management(t).Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
	if out, err := e.try("backup", "now", name); err == nil || !strings.Contains(err.Error(), "spec.backup") {
		t.Errorf("without spec.backup: %v\n%s", err, out)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Backup = &controlplanev1.BackupSpec{
			StoreRef: controlplanev1.BackupStoreReference{Name: "bucket"}, Schedule: "@daily",
			Encryption: controlplanev1.BackupEncryption{Recipients: []string{identity.Recipient().String()}},
		}
	})
	return key
}

// provesBackups verifies, fetches, damages and deletes backups. key is the file with the identity; empty: it is the environment's.
func (e *environment) provesBackups(t *testing.T, in place, all []listed, key string) {
	t.Helper()
	name := in.cluster
	older, newest := all[0].Name, all[1].Name
	var with []string
	if key != "" {
		with = []string{"--identity", key}
		if out, err := e.try("backup", "verify", name, newest); err == nil || !strings.Contains(err.Error(), "--identity") {
			t.Errorf("an encrypted backup without an identity: %v\n%s", err, out)
		}
	}
	start := time.Now()
	out := e.quorate(t, append([]string{"backup", "verify", name, newest}, with...)...)
	t.Logf("FIGURE backup verify: %.1f s: %s", time.Since(start).Seconds(), strings.TrimSpace(out))
	to := filepath.Join(t.TempDir(), "archive")
	e.quorate(t, "backup", "get", name, newest, "--to", to)
	if info, err := os.Stat(to); err != nil || info.Size() != all[1].SizeBytes {
		t.Errorf("the archive that was fetched: %v, %v", info, err)
	}
	if out, err := e.try("backup", "delete", name, newest); err == nil {
		t.Errorf("the newest verified backup was deleted: %s", out)
	}
	found, _ := filepath.Glob(filepath.Join(in.folder, "*", older, "archive"))
	if len(found) != 1 {
		t.Fatalf("%d archives of backup %s", len(found), older)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := e.try(append([]string{"backup", "verify", name, older}, with...)...); err == nil {
		t.Errorf("a changed bit is not found: %s", out)
	}
	e.quorate(t, "backup", "delete", name, older)
	if left := e.backups(t, name); len(left) != 1 || left[0].Name != newest {
		t.Errorf("after one was deleted the store has %+v", left)
	}
}

func conditionText(c *metav1.Condition) string {
	if c == nil {
		return "missing"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}
