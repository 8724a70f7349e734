// Package stores keeps BackupStores and ClusterBackupStores that are in use: a store that is deleted stays until nothing uses it any more,
// as a PersistentVolumeClaim does, and its status names its users. It knows who refers to a store, and nothing of what is in it.
package stores

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=backup.quorate.io,resources=backupstores;clusterbackupstores,verbs=list;watch;patch
// +kubebuilder:rbac:groups=backup.quorate.io,resources=backupstores/status;clusterbackupstores/status,verbs=patch

// Controller keeps all stores of one kind.
type Controller struct {
	// Client reads from the cache and writes; APIReader reads namespaces.
	Client    client.Client
	APIReader client.Reader
	// Groups are the kinds of groups that may name a store.
	Groups []observe.Kind
	// Kind is the kind of the stores.
	Kind controlplanev1.BackupStoreKind
}

// Add adds the controllers of both kinds of stores. A manager that works on one namespace does not see all users of a ClusterBackupStore,
// and leaves those alone.
func Add(mgr ctrl.Manager, groups []observe.Kind, all bool, with controller.Options) error {
	kinds := []controlplanev1.BackupStoreKind{controlplanev1.BackupStoreOfNamespace}
	if all {
		kinds = append(kinds, controlplanev1.BackupStoreOfCluster)
	}
	for _, kind := range kinds {
		c := &Controller{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Groups: groups, Kind: kind}
		if err := c.setup(mgr, with); err != nil {
			return fmt.Errorf("setting up the controller of kind %s: %w", kind, err)
		}
	}
	return nil
}

func (c *Controller) setup(mgr ctrl.Manager, with controller.Options) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(string(c.Kind))).For(c.newStore()).WithOptions(with)
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	for _, u := range usersOf(c.Groups) {
		b = b.Watches(u.empty, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			if key := c.key(o, u.ref(o)); key.Name != "" {
				return []ctrl.Request{{NamespacedName: key}}
			}
			return nil
		}), changed)
	}
	return b.Complete(c)
}

func (c *Controller) newStore() client.Object {
	if c.Kind == controlplanev1.BackupStoreOfCluster {
		return &backupv1alpha1.ClusterBackupStore{}
	}
	return &backupv1alpha1.BackupStore{}
}

func statusOf(store client.Object) *backupv1alpha1.StoreStatus {
	if of, is := store.(*backupv1alpha1.ClusterBackupStore); is {
		return &of.Status
	}
	return &store.(*backupv1alpha1.BackupStore).Status
}

// Reconcile finds the users of one store, keeps it or lets it go, and reports.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	store := c.newStore()
	if err := c.Client.Get(ctx, request.NamespacedName, store); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	users, err := c.users(ctx, store)
	if err != nil {
		return ctrl.Result{}, err
	}
	if store, err = c.hold(ctx, store, len(users) > 0); err != nil {
		return ctrl.Result{}, err
	}
	after := store.DeepCopyObject().(client.Object)
	named := users[:min(len(users), backupv1alpha1.MostStoreUsers)]
	*statusOf(after) = backupv1alpha1.StoreStatus{UserCount: ptr.To(int32(len(users))), Users: named}
	if equality.Semantic.DeepEqual(statusOf(store), statusOf(after)) {
		return ctrl.Result{}, nil
	}
	// A store without users that was deleted is gone by now.
	if err := client.IgnoreNotFound(c.Client.Status().Patch(ctx, after, client.MergeFrom(store))); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of %s %s: %w", c.Kind, request, err)
	}
	return ctrl.Result{}, nil
}

// hold keeps a store that is in use, and lets any other go. It returns the store as it is then.
func (c *Controller) hold(ctx context.Context, store client.Object, used bool) (client.Object, error) {
	after := store.DeepCopyObject().(client.Object)
	change := controllerutil.RemoveFinalizer
	if used {
		change = controllerutil.AddFinalizer
	}
	if used && !store.GetDeletionTimestamp().IsZero() || !change(after, backupv1alpha1.StoreInUseFinalizer) {
		return store, nil
	}
	// The list of finalizers is written as a whole: there must be no other write meanwhile.
	err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(store, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("changing the finalizers of %s %s: %w", c.Kind, store.GetName(), err)
	}
	return after, nil
}

// user is a kind of objects that may use a store.
type user struct {
	kind  schema.GroupVersionKind
	empty client.Object
	// ref returns the store that an object uses; without a name: none.
	ref func(client.Object) controlplanev1.BackupStoreReference
}

// usersOf returns all kinds that may use a store. What is being deleted uses it until it is gone: its backups may be deleted last.
func usersOf(groups []observe.Kind) []user {
	all := []user{{backupv1alpha1.GroupVersion.WithKind("EtcdRecovery"), &backupv1alpha1.EtcdRecovery{}, storeOfRecovery}}
	for _, group := range groups {
		all = append(all, user{group.Type().GroupVersionKind, group.New(), func(o client.Object) controlplanev1.BackupStoreReference {
			if spec := group.Spec(o.(observe.Object)).Backup; spec != nil {
				return spec.StoreRef
			}
			return controlplanev1.BackupStoreReference{}
		}})
	}
	return all
}

func storeOfRecovery(o client.Object) controlplanev1.BackupStoreReference {
	r := o.(*backupv1alpha1.EtcdRecovery)
	if r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "" {
		return controlplanev1.BackupStoreReference{}
	}
	return r.Spec.StoreRef
}

// key returns the store of this kind that an object uses; without a name: none.
func (c *Controller) key(o client.Object, ref controlplanev1.BackupStoreReference) client.ObjectKey {
	switch {
	case cmp.Or(ref.Kind, controlplanev1.BackupStoreOfNamespace) != c.Kind:
		return client.ObjectKey{}
	case c.Kind == controlplanev1.BackupStoreOfCluster:
		return client.ObjectKey{Name: ref.Name}
	}
	return client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}
}

// users returns all users of a store, by kind, namespace and name. An object in a namespace that a ClusterBackupStore does not allow is no
// user: a tenant must not keep an administrator from deleting a store.
func (c *Controller) users(ctx context.Context, store client.Object) ([]backupv1alpha1.StoreUser, error) {
	all, err := c.naming(ctx, client.ObjectKeyFromObject(store))
	of, is := store.(*backupv1alpha1.ClusterBackupStore)
	if err != nil || !is {
		return all, err
	}
	allowed := map[string]bool{}
	for _, u := range all {
		if _, known := allowed[u.Namespace]; known {
			continue
		}
		allowed[u.Namespace], err = backup.Allows(ctx, c.APIReader, of.Spec.AllowedNamespaces, u.Namespace)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(u backupv1alpha1.StoreUser) bool { return !allowed[u.Namespace] }), nil
}

// naming returns all that name a store, by kind, namespace and name.
func (c *Controller) naming(ctx context.Context, key client.ObjectKey) ([]backupv1alpha1.StoreUser, error) {
	var users []backupv1alpha1.StoreUser
	for _, u := range usersOf(c.Groups) {
		kind := u.kind
		list, err := c.Client.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		all := list.(client.ObjectList)
		if err := c.Client.List(ctx, all, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		err = meta.EachListItem(all, func(item runtime.Object) error {
			if o := item.(client.Object); c.key(o, u.ref(o)) == key {
				users = append(users, backupv1alpha1.StoreUser{Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the list of %s: %w", kind.Kind, err)
		}
	}
	slices.SortFunc(users, func(a, b backupv1alpha1.StoreUser) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return users, nil
}
