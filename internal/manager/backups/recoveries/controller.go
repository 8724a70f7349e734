// Package recoveries prepares what EtcdRecoveries ask for: it finds the backup that is to be restored, or takes one of the member that
// survived, and hands its snapshot out to the machine that restores it. It decides nothing about machines: the controller of the control
// plane carries the recovery out, once a person has approved it.
package recoveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	corebackup "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/backups"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// +kubebuilder:rbac:groups=backup.quorate.io,resources=etcdrecoveries,verbs=list;watch;patch
// +kubebuilder:rbac:groups=backup.quorate.io,resources=etcdrecoveries/status,verbs=patch

const (
	// soon is after how long a seed is looked for again, and seldom after how long at most: each look may read a whole snapshot.
	soon   = 10 * time.Second
	seldom = 5 * time.Minute
	// patience is how many times longer a recovery waited already than it waits for the next look.
	patience = 6
)

// Controller prepares all recoveries.
type Controller struct {
	backups.Options
	// Client reads from the cache and writes; APIReader reads secrets and stores.
	Client    client.Client
	APIReader client.Reader
	// Kinds are the kinds of groups that can be recovered.
	Kinds []observe.Kind
	// Address is the host:port at which machines fetch snapshots; empty: none can.
	Address string
}

// SetupWithManager registers the controller.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.Client, c.APIReader = mgr.GetClient(), mgr.GetAPIReader()
	err := ctrl.NewControllerManagedBy(mgr).Named("etcdrecovery").
		For(&backupv1alpha1.EtcdRecovery{}).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), c.WatchFilter)).
		WithOptions(c.Controller).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the recoveries: %w", err)
	}
	return nil
}

// recovery is one look at a recovery.
type recovery struct {
	*backupv1alpha1.EtcdRecovery
	cluster *clusterv1.Cluster
	kind    observe.Kind
	group   observe.Object
}

func (r *recovery) hasBegun() bool {
	return r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != ""
}

// isAllowed reports whether a person approved the recovery as it is, or its group wakes by it.
func (r *recovery) isAllowed() bool {
	return !observe.RecoveryAllowed(r.EtcdRecovery, string(r.cluster.UID), r.group, time.Now(), r.kind.Spec(r.group).Hibernate).IsZero()
}

// errRefused: the request cannot be carried out, and looking again does not help.
var errRefused = errors.New("refused")

// Reconcile finds the seed of one recovery, and reports.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r := &recovery{EtcdRecovery: &backupv1alpha1.EtcdRecovery{}}
	if err := c.Client.Get(ctx, request.NamespacedName, r.EtcdRecovery); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !r.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "":
		return ctrl.Result{}, c.report(ctx, r, nil)
	}
	err := c.prepare(ctx, r)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	again := ctrl.Result{}
	switch {
	case apierrors.IsNotFound(err): // the secret with the identity, for one, is created after the recovery that owns it
		again.RequeueAfter = time.Second
	case errors.Is(err, backup.ErrDamaged):
		again.RequeueAfter = seldom // only a person can make it good, in the store
	case err != nil && !errors.Is(err, errRefused):
		again.RequeueAfter = min(max(time.Since(r.CreationTimestamp.Time)/patience, soon), seldom)
	}
	return again, c.report(ctx, r, err)
}

// prepare makes the secret by which the snapshot is handed out, and finds the seed.
func (c *Controller) prepare(ctx context.Context, r *recovery) error {
	if err := c.find(ctx, r); err != nil {
		return err
	}
	if c.Address == "" {
		return fmt.Errorf("%w: machines cannot fetch a snapshot: an administrator sets the manager's flag --seed-address", errRefused)
	}
	if err := c.ensureSecret(ctx, r.EtcdRecovery); err != nil {
		return err
	}
	if r.hasBegun() && observe.SeedOf(r.EtcdRecovery) != nil {
		return nil
	}
	return c.seek(ctx, r)
}

// find reads the Cluster, and the object whose machines hold its etcd.
func (c *Controller) find(ctx context.Context, r *recovery) error {
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.ClusterName}, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s, which spec.clusterName names: %w", r.Spec.ClusterName, err)
	}
	ref, why, err := kubeadm.RecoveryTarget(ctx, c.Client, cluster)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(c.Kinds, func(k observe.Kind) bool { return k.Type().Group == ref.APIGroup && k.Type().Kind == ref.Kind })
	if why != "" || i < 0 {
		return fmt.Errorf("%w: %s", errRefused, cmp.Or(why, ref.Kind+" "+ref.Name+" cannot be recovered"))
	}
	r.cluster, r.kind, r.group = cluster, c.Kinds[i], c.Kinds[i].New()
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, r.group); err != nil {
		return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// report writes the condition and the digest.
func (c *Controller) report(ctx context.Context, r *recovery, failed error) error {
	after := r.DeepCopy()
	made := metav1.Condition{Type: backupv1alpha1.RecoveredCondition, Status: metav1.ConditionFalse, ObservedGeneration: r.Generation}
	seed := observe.SeedOf(r.EtcdRecovery)
	switch {
	case r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "":
		made.Status, made.Reason = metav1.ConditionTrue, backupv1alpha1.RecoveryEnded
	case errors.Is(failed, errRefused):
		made.Reason, made.Message = backupv1alpha1.RecoverySeedRefused, untrusted.Shown(failed.Error())
	case errors.Is(failed, backup.ErrDamaged):
		made.Reason, made.Message = backupv1alpha1.RecoverySeedDamaged, untrusted.Shown(failed.Error())
	case failed != nil:
		made.Reason, made.Message = backupv1alpha1.RecoverySeeking, untrusted.Shown(failed.Error())
	case r.hasBegun():
		made.Reason = backupv1alpha1.RecoveryUnderway
		made.Message = "see status.plan of the control plane"
	case seed != nil && r.isAllowed():
		made.Reason = backupv1alpha1.RecoveryUnderway
		made.Message = "the control plane wakes from the backup of its hibernation; see its status.plan"
	case seed != nil:
		made.Reason = backupv1alpha1.RecoveryUnapproved
		made.Message = fmt.Sprintf("backup %s, taken %s, revision %d, is to be restored and %d machines are given up; approve it: quorate "+
			"recover %s",
			seed.Backup, seed.Taken.UTC().Format(time.RFC3339), seed.Revision, len(r.Spec.GiveUp), r.Spec.ClusterName)
	default:
		made.Reason = backupv1alpha1.RecoverySeeking
	}
	conditions.Set(after, made)
	after.Status.Digest = ""
	if failed == nil && r.cluster != nil {
		after.Status.Digest = observe.RecoveryDigest(r.EtcdRecovery, string(r.cluster.UID))
	}
	if equality.Semantic.DeepEqual(r.Status, after.Status) {
		return nil
	}
	if err := c.Client.Status().Patch(ctx, after, client.MergeFrom(r.EtcdRecovery)); err != nil {
		return fmt.Errorf("writing the status of EtcdRecovery %s: %w", r.Name, err)
	}
	return nil
}

// identity is the UID under which the store has the backups from which the group is recovered.
func (r *recovery) identity() string {
	if former := r.Spec.FormerClusterUID; corebackup.IsName(former) {
		return former
	}
	if id := r.group.GetAnnotations()[controlplanev1.BackupIdentityAnnotation]; corebackup.IsName(id) {
		return id
	}
	return string(r.cluster.UID)
}

// with opens the store of a recovery.
func (c *Controller) with(ctx context.Context, r *backupv1alpha1.EtcdRecovery, uid string, do func(backup.Catalog) error) error {
	opened, done, err := c.Stores.Open(ctx, r.Namespace, r.Spec.StoreRef)
	if err != nil {
		return err
	}
	defer done()
	return do(backup.Catalog{Store: opened, UID: uid})
}

// identities are those by which the archive is decrypted.
func (c *Controller) identities(ctx context.Context, r *backupv1alpha1.EtcdRecovery) ([]age.Identity, error) {
	name := r.Spec.IdentitySecretRef.Name
	if name == "" {
		return nil, nil
	}
	of, err := c.secret(ctx, r.Namespace, name)
	if err != nil {
		return nil, err
	}
	all, err := age.ParseIdentities(strings.NewReader(string(of.Data[backupv1alpha1.IdentityKey])))
	if err != nil { // the error quotes it
		return nil, fmt.Errorf("%w: reading %s of secret %s: it must be an age identity", errRefused, backupv1alpha1.IdentityKey, name)
	}
	return all, nil
}

// secret reads a secret of a recovery's namespace.
func (c *Controller) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	if err := c.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", name, err)
	}
	return s, nil
}
