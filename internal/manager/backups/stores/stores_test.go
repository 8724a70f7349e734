package stores

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/manager/groups"
	"github.com/quorate/quorate/internal/manager/kinds"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func in(store string, kind controlplanev1.BackupStoreKind) *controlplanev1.BackupSpec {
	return &controlplanev1.BackupSpec{Schedule: "@daily", StoreRef: controlplanev1.BackupStoreReference{Kind: kind, Name: store}}
}

func kcp(namespace, name string, backup *controlplanev1.BackupSpec) client.Object {
	o := &controlplanev1.KubeadmControlPlane{ObjectMeta: named(namespace, name)}
	o.Spec.Backup = backup
	return o
}

// scene is a management cluster with a store of each kind, both named bucket.
type scene struct {
	t *testing.T
	c client.Client
}

func newScene(t *testing.T, users ...client.Object) *scene {
	t.Helper()
	company := &backupv1alpha1.ClusterBackupStore{ObjectMeta: named("", "bucket")}
	company.Spec.AllowedNamespaces = backupv1alpha1.AllowedNamespaces{Names: []string{"team", "rival"}}
	all := append(users, company, &backupv1alpha1.BackupStore{ObjectMeta: named("team", "bucket")})
	status := []client.Object{&backupv1alpha1.BackupStore{}, &backupv1alpha1.ClusterBackupStore{}}
	return &scene{t, fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithStatusSubresource(status...).WithObjects(all...).Build()}
}

// look reconciles a store twice, and returns it, whether it is there, and its users as text.
func (s *scene) look(kind controlplanev1.BackupStoreKind) (store client.Object, there bool, users string) {
	s.t.Helper()
	c := &Controller{Client: s.c, APIReader: s.c, Groups: groups.Observed(), Kind: kind}
	key := client.ObjectKey{Namespace: "team", Name: "bucket"}
	if kind == controlplanev1.BackupStoreOfCluster {
		key.Namespace = ""
	}
	for range 2 {
		if _, err := c.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			s.t.Fatal(err)
		}
	}
	store = c.newStore()
	if err := s.c.Get(s.t.Context(), key, store); apierrors.IsNotFound(err) {
		return nil, false, ""
	} else if err != nil {
		s.t.Fatal(err)
	}
	status := statusOf(store)
	users = fmt.Sprint(*status.UserCount)
	for _, u := range status.Users {
		users += fmt.Sprintf(" %s %s/%s", u.Kind, u.Namespace, u.Name)
	}
	if held := slices.Contains(store.GetFinalizers(), backupv1alpha1.StoreInUseFinalizer); held != (*status.UserCount > 0) {
		s.t.Errorf("with %d users the finalizers are %v", *status.UserCount, store.GetFinalizers())
	}
	return store, true, users
}

func (s *scene) delete(o client.Object) {
	s.t.Helper()
	if err := s.c.Delete(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

const (
	ofNamespace = controlplanev1.BackupStoreOfNamespace
	ofCluster   = controlplanev1.BackupStoreOfCluster
)

// TestUsers: a store names all that use it, of its kind, name and namespace, and no others.
func TestUsers(t *testing.T) {
	cp := &controlplanev1alpha1.ControlPlane{ObjectMeta: named("team", "cp")}
	cp.Spec.Backup = in("bucket", ofNamespace)
	etcd := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("team", "etcd")}
	etcd.Spec.Backup = in("bucket", "")
	recovery := &backupv1alpha1.EtcdRecovery{ObjectMeta: named("team", "now")}
	ended := &backupv1alpha1.EtcdRecovery{ObjectMeta: named("team", "past")}
	for _, r := range []*backupv1alpha1.EtcdRecovery{recovery, ended} {
		r.Spec.StoreRef = in("bucket", "").StoreRef
	}
	ended.Annotations = map[string]string{backupv1alpha1.RecoveryEndedAnnotation: "2026-11-27T17:03:12Z"}
	s := newScene(t, cp, etcd, recovery, ended, kcp("team", "a", in("bucket", "")), kcp("team", "none", nil),
		kcp("team", "elsewhere", in("other", "")), kcp("rival", "same-name", in("bucket", "")),
		kcp("team", "company", in("bucket", ofCluster)), kcp("rival", "company", in("bucket", ofCluster)),
		kcp("stranger", "company", in("bucket", ofCluster)))
	want := "4 ControlPlane team/cp EtcdCluster team/etcd EtcdRecovery team/now KubeadmControlPlane team/a"
	if _, _, users := s.look(ofNamespace); users != want {
		t.Errorf("%s, want %s", users, want)
	}
	want = "2 KubeadmControlPlane rival/company KubeadmControlPlane team/company"
	if _, _, users := s.look(ofCluster); users != want {
		t.Errorf("%s, want %s", users, want)
	}
}

// TestHeld: a store that is deleted stays as it is until its last user is gone or uses another one; one that nothing uses goes at once.
func TestHeld(t *testing.T) {
	for _, kind := range []controlplanev1.BackupStoreKind{ofNamespace, ofCluster} {
		a, b := kcp("team", "a", in("bucket", kind)), kcp("team", "b", in("bucket", kind))
		s := newScene(t, a, b)
		store, _, _ := s.look(kind)
		s.delete(store)
		if store, there, users := s.look(kind); !there || users[0] != '2' || store.GetDeletionTimestamp().IsZero() {
			t.Fatalf("%s: it is there: %t, with %s", kind, there, users)
		}
		s.delete(a)
		if _, there, users := s.look(kind); !there || users != "1 KubeadmControlPlane team/b" {
			t.Errorf("%s: it is there: %t, with %s", kind, there, users)
		}
		after := b.DeepCopyObject().(client.Object)
		after.(*controlplanev1.KubeadmControlPlane).Spec.Backup.StoreRef.Name = "other"
		if err := s.c.Patch(t.Context(), after, client.MergeFrom(b)); err != nil {
			t.Fatal(err)
		}
		if _, there, users := s.look(kind); there {
			t.Errorf("%s: it is still there, with %s", kind, users)
		}
		s = newScene(t, kcp("team", "a", nil))
		store, _, users := s.look(kind)
		if users != "0" || len(store.GetFinalizers()) > 0 {
			t.Errorf("%s: without users it has %s and %v", kind, users, store.GetFinalizers())
		}
		s.delete(store)
		if _, there, _ := s.look(kind); there {
			t.Errorf("%s: nothing uses it, and it stays", kind)
		}
	}
}

// TestManyUsers: of many users the first are named and all are counted.
func TestManyUsers(t *testing.T) {
	var all []client.Object
	for i := range 25 {
		all = append(all, kcp("team", fmt.Sprintf("c%02d", i), in("bucket", "")))
	}
	store, _, _ := newScene(t, all...).look(ofNamespace)
	status := statusOf(store)
	if *status.UserCount != 25 || len(status.Users) != backupv1alpha1.MostStoreUsers || status.Users[9].Name != "c09" {
		t.Errorf("%d users, named are %v", *status.UserCount, status.Users)
	}
}
