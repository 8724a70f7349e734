package backups

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
)

// bucket is a scene whose store is in a bucket of a service.
type bucket struct {
	*scene
	service *s3test.Service
	stored  clusterbackup.Catalog
}

func newBucket(t *testing.T, d s3test.Dialect) *bucket {
	t.Helper()
	s := s3test.Serve(t, d)
	store := &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "host"}}
	store.Spec.S3 = &backupv1alpha1.S3Store{
		S3Bucket:             backupv1alpha1.S3Bucket{Endpoint: s.URL, Bucket: s3test.Bucket, PathStyle: ptr.To(true), CABundle: string(s.CA)},
		CredentialsSecretRef: backupv1alpha1.SecretReference{Name: "credentials"},
	}
	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "credentials"},
		Data:       map[string][]byte{backupv1alpha1.AccessKeyID: []byte("id"), backupv1alpha1.SecretAccessKey: []byte("key")},
	}
	b := &bucket{newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.Schedule, k.Spec.Backup.Retention.Last = "0 0 29 2 *", ptr.To(int32(1))
		k.Spec.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}
	}, store, credentials), s, clusterbackup.Catalog{UID: uid}}
	opened, done, err := b.Stores.Open(t.Context(), key.Namespace, controlplanev1.BackupStoreReference{Name: "host"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	b.stored.Store = opened
	return b
}

// drop deletes objects of a backup, as somebody else does.
func (b *bucket) drop(name string, objects ...string) {
	for _, object := range objects {
		b.service.Delete(uid + "/" + name + "/" + object)
	}
}

// TestLost: where somebody deleted or overwrote the newest verified backup in a bucket that keeps versions, the status names it as what the
// cluster can be recovered from, only if it was verified. The condition, what is noted for changes of machines and retention count what is
// there.
func TestLost(t *testing.T) {
	all := []string{"manifest.json", "verified.json", "archive"}
	overwrite := func(b *bucket, name string) { b.service.Put(uid+"/"+name+"/archive", []byte("x")) }
	for name, test := range map[string]struct {
		dialect s3test.Dialect
		happens func(b *bucket, older, newest string)
		// last is whether the status names the older or the newest, noted whether a change of machines may count on one of them.
		last, noted string
		says        string
	}{
		"nothing": {s3test.Dialect{Versioned: true}, func(*bucket, string, string) {}, "newest", "newest", ""},
		"deleted": {s3test.Dialect{Versioned: true}, func(b *bucket, _, newest string) { b.drop(newest, all...) }, "newest", "older",
			"was deleted"},
		"overwritten": {s3test.Dialect{Versioned: true}, func(b *bucket, _, newest string) { overwrite(b, newest) }, "newest", "older",
			"was overwritten"},
		"an older one deleted": {s3test.Dialect{Versioned: true}, func(b *bucket, older, _ string) { b.drop(older, all...) },
			"newest", "newest", ""},
		"both deleted": {s3test.Dialect{Versioned: true}, func(b *bucket, older, newest string) {
			b.drop(older, all...)
			b.drop(newest, all...)
		}, "newest", "", "was deleted"},
		"the older overwritten, the newest deleted": {s3test.Dialect{Versioned: true}, func(b *bucket, older, newest string) {
			overwrite(b, older)
			b.drop(newest, all...)
		}, "newest", "", "was deleted"},
		"both overwritten": {s3test.Dialect{Versioned: true}, func(b *bucket, older, newest string) {
			overwrite(b, older)
			overwrite(b, newest)
		}, "newest", "", "was overwritten"},
		"one without a proof deleted": {s3test.Dialect{Versioned: true}, func(b *bucket, _, newest string) {
			b.drop(newest, all...)
			b.service.Forget(uid+"/"+newest+"/verified.json", 1)
		}, "older", "older", ""},
		"without versions": {s3test.Dialect{}, func(b *bucket, _, newest string) { b.drop(newest, all...) }, "older", "older", ""},
		"not allowed": {s3test.Dialect{Versioned: true, NoVersions: true}, func(b *bucket, _, newest string) { b.drop(newest, all...) },
			"older", "older", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t, test.dialect)
			now := time.Now().UTC().Truncate(time.Second)
			names := map[string]string{"older": put(t, b.stored, now.Add(-2*time.Hour), true), "newest": put(t, b.stored, now.Add(-time.Hour), true)}
			b.look() // what was seen before must not count
			test.happens(b, names["older"], names["newest"])
			kcp, text, _ := b.look()
			if got := kcp.Status.Backup.LastVerified.Name; got != names[test.last] {
				t.Errorf("the status names %q, want %q", got, names[test.last])
			}
			noted := kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]
			if test.noted == "" && noted != "" || !strings.Contains(noted, names[test.noted]) {
				t.Errorf("noted is %q, want %q", noted, names[test.noted])
			}
			if hints := strings.Contains(text, "has its old version"); hints != (test.says != "") || !strings.Contains(text, test.says) {
				t.Errorf("the condition says %q, want %q", text, test.says)
			}
			if isTrue := strings.HasPrefix(text, "True"); isTrue != (test.noted != "") {
				t.Errorf("nothing but what is there counts, and the condition is %q", text)
			}
		})
	}
}

// TestLostIsNotRetained: retention neither deletes a second time what was deleted, nor what was overwritten, and keeps the newest verified
// one that is there.
func TestLostIsNotRetained(t *testing.T) {
	b := newBucket(t, s3test.Dialect{Versioned: true})
	now := time.Now().UTC().Truncate(time.Second)
	var names []string
	for age := range 5 {
		names = append(names, put(t, b.stored, now.Add(-time.Duration(age+1)*time.Hour), true))
	}
	b.drop(names[0], "manifest.json", "verified.json", "archive")
	b.service.Put(uid+"/"+names[1]+"/archive", bytes.Repeat([]byte("x"), 9))
	kcp, _, _ := b.look()
	l := &look{object: kcp, spec: kcp.Spec.Backup, catalog: b.stored, known: &known{}}
	for range 2 {
		if err := l.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.retain(t.Context(), l)
	}
	deleted := map[string]int{}
	for _, key := range b.service.Deletes() {
		deleted[key]++
		if name := strings.Split(key, "/")[1]; deleted[key] > 1 || name != names[3] && name != names[4] {
			t.Errorf("%s was deleted", key)
		}
	}
	if len(deleted) != 6 {
		t.Errorf("deleted were %v, want all objects of %s and %s", deleted, names[3], names[4])
	}
}
