// Package backups takes the backups that control planes and etcd clusters ask for in spec.backup, and says in their status what came of it.
// It reads, asks package core/backup what is due, has package cluster/backup do it, and reports. It does not know how a backup is taken,
// and decides nothing else about a group.
package backups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/backups/stores"
)

// +kubebuilder:rbac:groups=backup.quorate.io,resources=backupstores;clusterbackupstores,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

const (
	// looks is how often the store is listed although nothing is due, so that the status says what is there.
	looks = 10 * time.Minute
	// soon is after how long a group is looked at again that cannot be backed up yet.
	soon = 30 * time.Second
	// longest is how long one backup may take.
	longest = 2 * time.Hour
)

// Options are what the controllers of all kinds share.
type Options struct {
	// Controller is what each is started with.
	Controller controller.Options
	// WatchFilter and LeaveLabelled are as in group.Controller.
	WatchFilter   string
	LeaveLabelled bool
	// AllNamespaces: the manager sees all users of a ClusterBackupStore, and not those of one namespace only.
	AllNamespaces bool
	// ForwardOnly: etcd is reached through the clusters' API servers alone.
	ForwardOnly bool
	// Stores opens the stores.
	Stores clusterbackup.Opener
	// Scratch is the folder in which snapshots are restored to prove them, within Limits; empty: nothing is proven.
	Scratch string
	Limits  scratch.Limits
	// Slots are shared: as many backups are taken at the same time as it has room for.
	Slots chan struct{}
}

// Controller takes the backups of all groups of one kind.
type Controller struct {
	Options
	// Client reads from the cache and writes; APIReader reads secrets and stores.
	Client    client.Client
	APIReader client.Reader
	// Kind is the kind of its groups.
	Kind observe.Kind

	mu    sync.Mutex
	known map[types.NamespacedName]*known
}

// known is what is kept of one group between looks. Without it more is read than is needed.
type known struct {
	// uid is the group's.
	uid types.UID
	// attempted, failures and said are of the last attempt of this process.
	attempted time.Time
	failures  int
	// took is how long the last attempt took.
	took time.Duration
	said controlplanev1.BackupAttempt
	// seen are the backups that the last list had, in the store and under the identity that it was of.
	seen   map[string]*clusterbackup.Entry
	seenOf string
}

// AddStores adds the controllers that keep stores which are in use.
func AddStores(mgr ctrl.Manager, kinds []observe.Kind, o Options) error {
	return stores.Add(mgr, kinds, o.AllNamespaces, o.Controller)
}

// Add adds the controller of a kind to a manager.
func Add(mgr ctrl.Manager, kind observe.Kind, o Options) error {
	if err := RegisterMetrics(metrics.Registry); err != nil {
		return err
	}
	o.Controller.ReconciliationTimeout = longest + time.Hour
	c := &Controller{Options: o, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Kind: kind, known: map[types.NamespacedName]*known{}}
	name := "backup-" + kind.Type().Resource
	err := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(kind.New(), builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, leaves))).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), o.WatchFilter)).
		WithOptions(o.Controller).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the backups of %s: %w", kind.Type().Kind, err)
	}
	return nil
}

// Reconcile looks at one group, takes a backup if one is due, and reports.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := c.Kind.New()
	if err := c.Client.Get(ctx, request.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			c.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading %s %s: %w", c.Kind.Type().Kind, request, err)
	}
	spec := c.Kind.Spec(object)
	left := c.LeaveLabelled && object.GetLabels()[clusterv1.WatchLabel] != ""
	if !object.GetDeletionTimestamp().IsZero() && !left {
		return c.end(ctx, object)
	}
	if spec.Backup == nil || left {
		c.forget(request.NamespacedName)
		return ctrl.Result{}, c.withdraw(ctx, object, spec.Backup == nil)
	}
	cluster, err := c.cluster(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	initialized := ptr.Deref(*c.Kind.Status(object).Initialized, false)
	if cluster == nil || annotations.IsPaused(cluster, object) || !initialized {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	timetable, err := backup.ParseSchedule(spec.Backup.Schedule, spec.Backup.TimeZone)
	switch {
	case err != nil:
		return ctrl.Result{}, c.report(ctx, &look{object: object, failed: err, reason: controlplanev1.BackupFailed})
	case !spec.HoldsQuorum && c.Kind.Type().Kind == "KubeadmControlPlane":
		return ctrl.Result{}, c.report(ctx, &look{object: object, failed: fmt.Errorf("etcd does not run on its machines"),
			reason: controlplanev1.BackupFailed})
	}
	return c.look(ctx, object, cluster, spec.Backup, timetable)
}

// end takes a last backup of a group that is deleted, if one is needed, and lets it go.
func (c *Controller) end(ctx context.Context, object observe.Object) (ctrl.Result, error) {
	if c.needsLast(object) {
		return c.takeLast(ctx, object)
	}
	c.forget(client.ObjectKeyFromObject(object))
	return c.leave(ctx, object)
}

// cluster returns the group's Cluster; nil: it has none.
func (c *Controller) cluster(ctx context.Context, object observe.Object) (*clusterv1.Cluster, error) {
	name := clusterName(object)
	if name == "" {
		return nil, nil
	}
	cluster, err := util.GetClusterByName(ctx, c.Client, object.GetNamespace(), name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cluster, err
}

// clusterName returns the name of a group's Cluster; empty: it has none.
func clusterName(object observe.Object) string {
	owners := object.GetOwnerReferences()
	if i := slices.IndexFunc(owners, ofCluster); i >= 0 {
		return owners[i].Name
	}
	return object.GetLabels()[clusterv1.ClusterNameLabel]
}

func ofCluster(o metav1.OwnerReference) bool { return o.Kind == "Cluster" }

// of returns what is known of a group.
func (c *Controller) of(object observe.Object) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	if c.known[key] == nil || c.known[key].uid != object.GetUID() {
		c.known[key] = &known{uid: object.GetUID()}
	}
	return c.known[key]
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
	forgetMetrics(c.Kind.Type().Kind, key)
}

// look opens the store, takes a backup if one is due, and reports.
func (c *Controller) look(
	ctx context.Context, object observe.Object, cluster *clusterv1.Cluster, spec *controlplanev1.BackupSpec, timetable backup.Timetable,
) (ctrl.Result, error) {
	k := c.of(object)
	if object.GetDeletionTimestamp().IsZero() {
		var err error
		if object, err = c.hold(ctx, object, spec.DeletionPolicy == controlplanev1.BackupsDelete); err != nil {
			return ctrl.Result{}, err
		}
	}
	object, id, err := c.identity(ctx, object, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	l := &look{object: object, cluster: cluster, spec: spec, timetable: timetable, known: k, hibernates: c.Kind.Spec(object).Hibernate}
	opened, done, err := c.Stores.Open(ctx, object.GetNamespace(), spec.StoreRef)
	if err != nil {
		return c.unusable(ctx, l, err)
	}
	defer done()
	l.catalog = clusterbackup.Catalog{Store: opened, UID: id}
	if of := observe.StoreOf(spec.StoreRef) + "/" + id; k.seenOf == of {
		l.catalog.Seen = k.seen
	} else {
		k.seenOf = of
	}
	if err = l.list(ctx); err != nil {
		return c.unusable(ctx, l, err)
	}
	if l.isWanted(time.Now()) {
		if err := c.attempt(ctx, l); err != nil {
			return ctrl.Result{}, err
		}
	}
	if l.failed == nil {
		if err := c.noteVerified(ctx, l); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := c.report(ctx, l); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: l.again(time.Now())}, nil
}

// unusable reports that the store cannot be used, and when it is tried again.
func (c *Controller) unusable(ctx context.Context, l *look, err error) (ctrl.Result, error) {
	l.failed, l.reason = err, controlplanev1.BackupStoreUnusable
	CountFailure(c.Kind.Type().Kind, l.reason)
	return ctrl.Result{RequeueAfter: soon}, c.report(ctx, l)
}

// identity returns the UID under which the store has the group's backups, and writes it to the object where it is not there. A move makes a
// Cluster with another UID, and keeps the annotation.
func (c *Controller) identity(ctx context.Context, object observe.Object, cluster *clusterv1.Cluster) (observe.Object, string, error) {
	if id := object.GetAnnotations()[controlplanev1.BackupIdentityAnnotation]; backup.IsName(id) {
		return object, id, nil
	}
	after := object.DeepCopyObject().(observe.Object)
	all := map[string]string{controlplanev1.BackupIdentityAnnotation: string(cluster.UID)}
	for name, value := range object.GetAnnotations() {
		if name != controlplanev1.BackupIdentityAnnotation {
			all[name] = value
		}
	}
	after.SetAnnotations(all)
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, "", fmt.Errorf("writing the identity of the backups of %s: %w", object.GetName(), err)
	}
	return after, string(cluster.UID), nil
}
