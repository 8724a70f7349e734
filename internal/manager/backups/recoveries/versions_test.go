package recoveries

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
	"github.com/quorate/quorate/internal/group/observe"
)

// intoBucket stores the backup in a bucket that keeps versions, in place of the folder.
func (s *scene) intoBucket() *s3test.Service {
	s.t.Helper()
	service := s3test.Serve(s.t, s3test.Dialect{Versioned: true})
	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bucket"},
		Data:       map[string][]byte{backupv1alpha1.AccessKeyID: []byte("id"), backupv1alpha1.SecretAccessKey: []byte("key")},
	}
	store := &backupv1alpha1.BackupStore{}
	err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: "host"}, store)
	if err == nil {
		store.Spec = backupv1alpha1.BackupStoreSpec{S3: &backupv1alpha1.S3Store{
			S3Bucket: backupv1alpha1.S3Bucket{
				Endpoint: service.URL, Bucket: s3test.Bucket, PathStyle: ptr.To(true), CABundle: string(service.CA),
			},
			CredentialsSecretRef: backupv1alpha1.SecretReference{Name: "bucket"},
		}}
		err = s.c.Update(s.t.Context(), store)
	}
	if err == nil {
		err = s.c.Create(s.t.Context(), credentials)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.store()
	return service
}

// TestDeletedSeed: a control plane is recovered from a backup that somebody deleted or overwrote in a bucket that keeps versions: the old
// version is found by its name, and handed out. One that was never verified is refused as any other.
func TestDeletedSeed(t *testing.T) {
	const at = "cluster/" + backupName + "/"
	deleted := func(s *s3test.Service) {
		for _, object := range []string{"manifest.json", "verified.json", "archive"} {
			s.Delete(at + object)
		}
	}
	for name, test := range map[string]struct {
		happens func(*s3test.Service)
		refused string
	}{
		"deleted":              {deleted, ""},
		"the archive replaced": {func(s *s3test.Service) { s.Put(at+"archive", []byte("x")) }, ""},
		"the manifest replaced, then deleted": {func(s *s3test.Service) {
			s.Put(at+"manifest.json", []byte("{}"))
			deleted(s)
		}, ""},
		"deleted without a proof": {func(s *s3test.Service) {
			deleted(s)
			s.Forget(at+"verified.json", 1)
		}, "is not verified: verify it first"},
		"deleted for good": {func(s *s3test.Service) {
			deleted(s)
			s.Forget(at+"archive", 1)
		}, "not found in the store"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			test.happens(s.intoBucket())
			r, _ := s.seeks(nil)
			seed, is := observe.SeedOf(r), conditions.Get(r, backupv1alpha1.RecoveredCondition)
			if (seed != nil) != (test.refused == "") || !strings.Contains(is.Message, test.refused) {
				t.Fatalf("seed %+v, %+v", seed, is)
			}
			if seed == nil {
				return
			}
			if err := s.c.Delete(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			s = newScene(t)
			test.happens(s.intoBucket())
			r = s.recovery(nil)
			from, err := observe.SeedSourceOf(t.Context(), s.c, r)
			if err != nil {
				t.Fatal(err)
			}
			if body, status := s.fetch(r, from, from.TokenOf("demo-cp-4")); body != snapshot {
				t.Errorf("handed out is %d: %q", status, body)
			}
		})
	}
}
