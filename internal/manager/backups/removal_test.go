package backups

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// machinesLeft is the finalizer of whoever deletes the machines.
const machinesLeft = "test/machines"

func hoursAgo(n int) time.Time {
	return time.Now().UTC().Truncate(time.Second).Add(-time.Duration(n) * time.Hour)
}

// deletion is a control plane with backups in its store, which is about to be deleted with its Cluster.
type deletion struct {
	*scene
	catalog clusterbackup.Catalog
}

func newDeletion(t *testing.T, policy controlplanev1.BackupDeletionPolicy) *deletion {
	t.Helper()
	d := &deletion{scene: newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Backup.DeletionPolicy, k.Finalizers = policy, []string{machinesLeft}
		k.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: uid}}
	}, hostStore())}
	d.change("Cluster", func(o client.Object) { controllerutil.AddFinalizer(o, "test/cluster") })
	kcp, _, _ := d.look()
	if held := slices.Contains(kcp.Finalizers, controlplanev1.BackupsFinalizer); held != (policy == controlplanev1.BackupsDelete) {
		t.Errorf("policy %q: finalizers %q", policy, kcp.Finalizers)
	}
	opened, done, err := d.Stores.Open(t.Context(), key.Namespace, controlplanev1.BackupStoreReference{Name: "host"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	d.catalog = clusterbackup.Catalog{Store: opened, UID: uid}
	put(t, d.catalog, hoursAgo(2), true)
	put(t, d.catalog, hoursAgo(1), false)
	return d
}

// change changes an object, if it is there.
func (d *deletion) change(kind string, change func(client.Object)) {
	d.t.Helper()
	var o client.Object = &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if kind == "Cluster" {
		o = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "demo"}}
	}
	err := d.c.Get(d.t.Context(), client.ObjectKeyFromObject(o), o)
	if err == nil {
		change(o)
		err = d.c.Update(d.t.Context(), o)
	}
	if client.IgnoreNotFound(err) != nil {
		d.t.Fatal(err)
	}
}

func (d *deletion) delete(kind string) {
	d.t.Helper()
	d.change(kind, func(o client.Object) {
		if err := d.c.Delete(d.t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
			d.t.Fatal(err)
		}
		if err := d.c.Get(d.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			d.t.Fatal(err)
		}
	})
}

// turn reconciles once, and returns how many backups are left, whether the control plane is, and what its condition says.
func (d *deletion) turn() (backups int, there bool, says string) {
	d.t.Helper()
	if _, err := d.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		d.t.Fatal(err)
	}
	entries, err := d.catalog.List(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	err = d.c.Get(d.t.Context(), key, kcp)
	if client.IgnoreNotFound(err) != nil {
		d.t.Fatal(err)
	}
	if c := conditions.Get(kcp, controlplanev1.BackupCurrentCondition); c != nil {
		says = c.Reason + ": " + c.Message
	}
	return len(entries), !apierrors.IsNotFound(err), says
}

// TestDeletionPolicy: the backups of a Cluster are deleted with it only where that is asked for, after its machines, and only its own.
func TestDeletionPolicy(t *testing.T) {
	machinesGo := func(d *deletion) {
		d.change("", func(o client.Object) { controllerutil.RemoveFinalizer(o, machinesLeft) })
	}
	const waits = "StoreUnusable: deleting the backups; set spec.backup.deletionPolicy to Retain to keep them: "
	goes := func(d *deletion) { d.delete("Cluster"); d.delete(""); machinesGo(d) }
	for name, test := range map[string]struct {
		policy controlplanev1.BackupDeletionPolicy
		happen func(*deletion)
		left   int
		there  bool
		says   string
	}{
		"kept by default":      {"", goes, 2, false, ""},
		"kept":                 {controlplanev1.BackupsRetain, goes, 2, false, ""},
		"deleted":              {controlplanev1.BackupsDelete, goes, 0, false, ""},
		"not before the rest":  {controlplanev1.BackupsDelete, func(d *deletion) { d.delete("Cluster"); d.delete("") }, 2, true, ""},
		"not while it lives":   {controlplanev1.BackupsDelete, func(d *deletion) { d.delete("Cluster") }, 2, true, ""},
		"the group alone":      {controlplanev1.BackupsDelete, func(d *deletion) { d.delete(""); machinesGo(d) }, 2, false, ""},
		"after its Cluster":    {controlplanev1.BackupsDelete, func(d *deletion) { d.delete("Cluster"); d.clusterGoes(); goes(d) }, 0, false, ""},
		"paused":               {controlplanev1.BackupsDelete, func(d *deletion) { d.pause(); goes(d) }, 2, true, ""},
		"kept at last":         {controlplanev1.BackupsDelete, func(d *deletion) { goes(d); d.retain() }, 2, false, ""},
		"another's, and none":  {controlplanev1.BackupsDelete, func(d *deletion) { d.strangers(); goes(d) }, 2, false, ""},
		"the store is gone":    {controlplanev1.BackupsDelete, func(d *deletion) { d.storeGoes(); goes(d) }, 2, false, ""},
		"the store fails":      {controlplanev1.BackupsDelete, func(d *deletion) { d.Stores.Folder += "/x"; goes(d) }, 2, true, waits},
		"the identity is gone": {controlplanev1.BackupsDelete, func(d *deletion) { d.forgets(); goes(d) }, 2, false, ""},
		"the policy changes":   {controlplanev1.BackupsDelete, func(d *deletion) { d.retain(); d.turn(); goes(d) }, 2, false, ""},
		"it is backed up no more": {controlplanev1.BackupsDelete, func(d *deletion) {
			d.change("", func(o client.Object) { o.(*controlplanev1.KubeadmControlPlane).Spec.Backup = nil })
			d.turn()
			goes(d)
		}, 2, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeletion(t, test.policy)
			test.happen(d)
			left, there, says := d.turn()
			if left != test.left || there != test.there || !strings.HasPrefix(says, test.says) {
				t.Errorf("%d backups are left, want %d; the control plane is: %t, want %t; it says %q", left, test.left, there, test.there, says)
			}
		})
	}
}

func (d *deletion) clusterGoes() {
	d.change("Cluster", func(o client.Object) { controllerutil.RemoveFinalizer(o, "test/cluster") })
}

func (d *deletion) pause() {
	paused := true
	d.change("Cluster", func(o client.Object) { o.(*clusterv1.Cluster).Spec.Paused = &paused })
}

func (d *deletion) retain() {
	d.change("", func(o client.Object) {
		o.(*controlplanev1.KubeadmControlPlane).Spec.Backup.DeletionPolicy = controlplanev1.BackupsRetain
	})
}

func (d *deletion) forgets() { d.change("", func(o client.Object) { o.SetAnnotations(nil) }) }

func (d *deletion) storeGoes() {
	if err := d.c.Delete(d.t.Context(), hostStore()); err != nil {
		d.t.Fatal(err)
	}
}

// strangers puts beside the cluster's backups one that says it is another's, and one whose manifest is damaged.
func (d *deletion) strangers() {
	putOf(d.t, d.catalog, "other", hoursAgo(3), true)
	damaged := uid + "/20261127t170312z-x7k2p/manifest.json"
	if err := d.catalog.Store.Put(d.t.Context(), damaged, strings.NewReader("{")); err != nil {
		d.t.Fatal(err)
	}
}

// TestLastBackup: a control plane that is being deleted has a backup taken, whatever the schedule says, and notes it; after that the store
// is not looked at any more. What never was initialised, and what wants none, has none.
func TestLastBackup(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*controlplanev1.KubeadmControlPlane)
		tried  bool
	}{
		"wanted":      {nil, true},
		"not wanted":  {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Backup.LastBackup = controlplanev1.LastBackupNone }, false},
		"no etcd":     {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.ManagedExternalEtcdRef.Kind = "EtcdCluster" }, false},
		"never a one": {func(k *controlplanev1.KubeadmControlPlane) { k.Status.Initialization.ControlPlaneInitialized = nil }, false},
		"after a move": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Status.Initialization.ControlPlaneInitialized = nil
			k.Annotations = map[string]string{controlplanev1.InitializedAnnotation: "true"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(k *controlplanev1.KubeadmControlPlane) {
				k.Spec.Backup.LastBackup, k.Spec.Backup.Schedule, k.Finalizers = controlplanev1.LastBackupRequired, "0 0 29 2 *", []string{machinesLeft}
				if test.change != nil {
					test.change(k)
				}
			}, hostStore())
			put(t, s.catalog(uid), hoursAgo(1), true)
			kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := s.c.Delete(t.Context(), kcp); err != nil {
				t.Fatal(err)
			}
			kcp, text, again := s.look()
			tried := kcp.Status.Backup.LastAttempt.Reason == controlplanev1.BackupFailed && strings.Contains(text, "the last attempt (Failed)")
			if tried != test.tried || again.RequeueAfter > time.Minute || (again.RequeueAfter > 0) != tried {
				t.Fatalf("tried is %t, looked at again after %s: %s", tried, again.RequeueAfter, text)
			}
			if !tried {
				return
			}
			last := put(t, s.catalog(uid), time.Now().UTC().Truncate(time.Second).Add(time.Second), true)
			kcp, _, _ = s.look()
			noted := observe.ParseVerifiedBackup(kcp.Annotations[controlplanev1.BackupVerifiedAnnotation])
			if noted.Name != last || noted.Taken.Before(kcp.DeletionTimestamp.Time) {
				t.Fatalf("noted is %+v, want %s, at or after %s", noted, last, kcp.DeletionTimestamp)
			}
			s.Stores.Folder += "/gone"
			kcp, _, again = s.look()
			if now := kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]; again.RequeueAfter > 0 || now != noted.String() {
				t.Errorf("after it was noted: again after %s, noted is %s", again.RequeueAfter, now)
			}
		})
	}
}
