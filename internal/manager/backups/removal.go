package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// leaves passes what happens to an object that is being deleted: which finalizers are left does not change its generation.
var leaves = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !e.ObjectNew.GetDeletionTimestamp().IsZero() }}

// hold keeps a group until its backups are deleted, or lets it go. It returns the group as it is then.
func (c *Controller) hold(ctx context.Context, object observe.Object, wanted bool) (observe.Object, error) {
	after := object.DeepCopyObject().(observe.Object)
	change := controllerutil.RemoveFinalizer
	if wanted {
		change = controllerutil.AddFinalizer
	}
	if !change(after, controlplanev1.BackupsFinalizer) {
		return object, nil
	}
	// The list of finalizers is written as a whole: there must be no other write meanwhile.
	err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("changing the finalizers of %s %s: %w", c.Kind.Type().Kind, object.GetName(), err)
	}
	return after, nil
}

// needsLast reports whether the deletion of a group waits for a last backup. Once one is noted the machines go, and the store is not looked
// at any more: one that fails then must not stop a deletion half way.
func (c *Controller) needsLast(object observe.Object) bool {
	_, initialized := object.GetAnnotations()[controlplanev1.InitializedAnnotation]
	initialized = initialized || ptr.Deref(*c.Kind.Status(object).Initialized, false)
	spec := c.Kind.Spec(object)
	since := observe.LastBackup(object, spec.Backup)
	if since.IsZero() || !spec.HoldsQuorum || !initialized {
		return false
	}
	noted := observe.ParseVerifiedBackup(object.GetAnnotations()[controlplanev1.BackupVerifiedAnnotation])
	return noted.Taken.Before(since) || noted.Store != observe.StoreOf(spec.Backup.StoreRef)
}

// takeLast takes the last backup of a group that is being deleted.
func (c *Controller) takeLast(ctx context.Context, object observe.Object) (ctrl.Result, error) {
	cluster, err := c.cluster(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil || annotations.IsPaused(cluster, object) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	spec := c.Kind.Spec(object).Backup
	timetable, err := backup.ParseSchedule(spec.Schedule, spec.TimeZone)
	if err != nil {
		return ctrl.Result{}, c.report(ctx, &look{object: object, failed: err, reason: controlplanev1.BackupFailed})
	}
	return c.look(ctx, object, cluster, spec, timetable)
}

// leave is for a group that is being deleted. Where spec.backup.deletionPolicy says so and its Cluster goes too, its backups are deleted
// as the last thing of it: until then they are what it can be recovered from.
func (c *Controller) leave(ctx context.Context, object observe.Object) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(object, controlplanev1.BackupsFinalizer) {
		return ctrl.Result{}, nil
	}
	cluster, err := c.cluster(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	spec := c.Kind.Spec(object).Backup
	if spec != nil && spec.DeletionPolicy == controlplanev1.BackupsDelete && c.goes(object, cluster) {
		if annotations.HasPaused(object) || cluster != nil && annotations.IsPaused(cluster, object) {
			return ctrl.Result{RequeueAfter: soon}, nil
		}
		if len(object.GetFinalizers()) > 1 {
			return ctrl.Result{}, nil // the machines are not gone yet; the event of the last one leads here
		}
		if err := c.deleteAll(ctx, object, spec); err != nil {
			err = fmt.Errorf("deleting the backups; set spec.backup.deletionPolicy to Retain to keep them: %w", err)
			return ctrl.Result{RequeueAfter: soon}, c.report(ctx, &look{object: object, failed: err, reason: controlplanev1.BackupStoreUnusable})
		}
	}
	_, err = c.hold(ctx, object, false)
	return ctrl.Result{}, err
}

// goes reports whether a group is deleted because its Cluster is, or was.
func (c *Controller) goes(object observe.Object, cluster *clusterv1.Cluster) bool {
	if cluster != nil {
		return !cluster.DeletionTimestamp.IsZero()
	}
	return slices.ContainsFunc(object.GetOwnerReferences(), ofCluster)
}

// deleteAll deletes the backups that belong to a group by their manifests, and what uploads left. A store that is not there any more, as
// where the whole namespace is deleted, keeps what it has.
func (c *Controller) deleteAll(ctx context.Context, object observe.Object, spec *controlplanev1.BackupSpec) error {
	id := object.GetAnnotations()[controlplanev1.BackupIdentityAnnotation]
	if !backup.IsName(id) {
		return nil // none was ever taken
	}
	log := ctrl.LoggerFrom(ctx)
	opened, done, err := c.Stores.Open(ctx, object.GetNamespace(), spec.StoreRef)
	if errors.Is(err, clusterbackup.ErrMissing) {
		log.Info("The backups stay: their store cannot be opened any more", "message", shown(err))
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	catalog := clusterbackup.Catalog{Store: opened, UID: id}
	entries, err := catalog.List(ctx)
	if err != nil {
		return err
	}
	name, deleted := clusterName(object), 0
	for _, e := range entries {
		if e.Manifest == nil || e.Manifest.Cluster.UID != id || e.Manifest.Cluster.Name != name {
			log.Info("A backup stays: its manifest does not say that it is this cluster's", "backup", e.Name)
			continue
		}
		if err := catalog.Delete(ctx, e.Name); err != nil {
			return err
		}
		deleted++
	}
	log.Info("Deleted the backups, as spec.backup.deletionPolicy says", "backups", deleted)
	return catalog.Clear(ctx, time.Now().Add(clusterbackup.Abandoned))
}
