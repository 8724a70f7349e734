package nodeupgrade

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,verbs=list;watch;patch
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller carries out NodeUpgrades.
type Controller struct {
	// Client reads from the cache and writes. APIReader reads from the API server: secrets, and whether another upgrade has begun.
	Client    client.Client
	APIReader client.Reader
	// Clusters opens managed clusters; nil: as the secrets with their kubeconfigs say.
	Clusters Clusters
	// Recorder writes events.
	Recorder events.EventRecorder
	// WatchFilter is the value of Cluster API's watch-filter label that objects must have to be looked at; empty: all are.
	WatchFilter string
	// Upgraders finds the upgrader's image if the NodeUpgrade names none: upgraders.Images does.
	Upgraders Upgraders

	// beginning are the clusters in which the upgrade of a control plane node begins: two must not each find that no other has begun.
	beginning underway[client.ObjectKey]
	// turns counts the turns of the NodeUpgrades of each namespace.
	turns underway[string]
}

// Upgraders finds upgrader images for versions of Kubernetes. Package upgraders describes the methods.
type Upgraders interface {
	Of(ctx context.Context, namespace, version string) (string, error)
	Brings(ctx context.Context, namespace, version string) (value, source string, err error)
	Missing(namespace, version string) string
}

// scope is one NodeUpgrade, and whose node it is about.
type scope struct {
	upgrade *upgradev1.NodeUpgrade
	// machine and cluster are nil where they do not exist.
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
}

// clusterTimeout is how long one look into a managed cluster, or one write there, may take in all.
const clusterTimeout = 8 * time.Second

// turnsPerNamespace is how many NodeUpgrades of a namespace have a turn at once. A turn waits for a managed cluster, at most for
// clusterTimeout: clusters of one namespace that do not answer leave most of the controller's workers to others.
const turnsPerNamespace = 20

// Reconcile looks at one NodeUpgrade once.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &scope{upgrade: &upgradev1.NodeUpgrade{}}
	if err := c.Client.Get(ctx, request.NamespacedName, s.upgrade); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ours := controllerutil.ContainsFinalizer(s.upgrade, upgradev1.Finalizer)
	if !ours && (!s.upgrade.DeletionTimestamp.IsZero() || upgradepod.StateOf(s.upgrade) == upgradepod.Complete) {
		return ctrl.Result{}, c.reportAgain(ctx, s)
	}
	if err := c.read(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if !c.turns.begin(request.Namespace, turnsPerNamespace) {
		return ctrl.Result{RequeueAfter: upgradepod.SoonRunning}, nil
	}
	defer c.turns.end(request.Namespace)
	result, err := c.turn(ctx, s)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: upgradepod.SoonRunning}, nil // it was decided on what is no longer true
	}
	return result, err
}

// read reads the Machine and the Cluster. What does not exist is nil.
func (c *Controller) read(ctx context.Context, s *scope) error {
	u := s.upgrade
	m := &clusterv1.Machine{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.Spec.Machine.Name}, m)
	switch {
	case err == nil:
		s.machine = m
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Machine %s: %w", u.Spec.Machine.Name, err)
	}
	name := u.Labels[clusterv1.ClusterNameLabel]
	if s.machine != nil {
		name = s.machine.Spec.ClusterName
	}
	if name == "" {
		return nil
	}
	s.cluster, err = util.GetClusterByName(ctx, c.Client, u.Namespace, name)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Cluster of NodeUpgrade %s: %w", u.Name, err)
	}
	return nil
}

// paused reports whether a person holds the upgrade.
func (s *scope) paused() bool {
	return annotations.HasPaused(s.upgrade) || s.cluster != nil && ptr.Deref(s.cluster.Spec.Paused, false)
}

// turn decides once, and does what was decided.
func (c *Controller) turn(ctx context.Context, s *scope) (ctrl.Result, error) {
	switch {
	case !s.upgrade.DeletionTimestamp.IsZero():
		return c.remove(ctx, s)
	case !s.owned():
		return ctrl.Result{}, c.own(ctx, s) // its change brings the next turn about
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	facts, w := c.observe(ctx, s)
	defer w.close()
	outcome := upgradepod.Decide(facts)
	if err := c.carryOut(ctx, s, w, outcome); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: outcome.Again}, nil
}

// carryOut reports what was decided, and does it. The report comes first: what is begun in the managed cluster is on record here.
func (c *Controller) carryOut(ctx context.Context, s *scope, w *look, o upgradepod.Outcome) error {
	record := c.record
	if o.Action == upgradepod.MakePod && upgradepod.StateOf(s.upgrade) != upgradepod.Active &&
		s.upgrade.Spec.NodeType == upgradev1.ControlPlane {
		record = c.recordAlone
	}
	if err := record(ctx, s, o); err != nil {
		return err
	}
	return c.do(ctx, s, w, o.Action)
}

// recordAlone records that the upgrade of a control plane node begins, unless another one of the cluster has begun or begins now: that is a
// conflict. From the record on others see it.
func (c *Controller) recordAlone(ctx context.Context, s *scope, o upgradepod.Outcome) error {
	key := client.ObjectKeyFromObject(s.cluster)
	if !c.beginning.begin(key, 1) {
		return conflict(s, "the upgrade of another node of the control plane begins now")
	}
	defer c.beginning.end(key)
	if err := c.alone(ctx, s); err != nil {
		return err
	}
	return c.record(ctx, s, o)
}

// record writes what was decided into the management cluster.
func (c *Controller) record(ctx context.Context, s *scope, o upgradepod.Outcome) error {
	if o.Action == upgradepod.MakePod {
		if err := c.holdMachine(ctx, s); err != nil {
			return err
		}
		if err := c.markBegun(ctx, s); err != nil {
			return err
		}
	}
	return c.report(ctx, s, o)
}

// do does what was decided and reported. Once the upgrade has failed its Machine is not held any more.
func (c *Controller) do(ctx context.Context, s *scope, w *look, action upgradepod.Action) error {
	var err error
	switch action {
	case upgradepod.MakePod:
		err = c.makePod(ctx, s, w)
	case upgradepod.DeletePod:
		err = w.deletePod(ctx, s.upgrade)
	case upgradepod.CleanUp:
		return c.finish(ctx, s, w)
	}
	if err != nil {
		// The managed cluster may be away for seconds: the next look tells.
		ctrl.LoggerFrom(ctx).V(1).Info("Could not write into the managed cluster", "action", string(action), "error", err.Error())
	}
	if upgradepod.StateOf(s.upgrade) == upgradepod.Failed {
		return c.releaseMachine(ctx, s)
	}
	return nil
}

// report writes the status, and tells by an event what is new.
func (c *Controller) report(ctx context.Context, s *scope, o upgradepod.Outcome) error {
	if o.Retried {
		if err := c.dropRetry(ctx, s); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(s.upgrade.Status, o.Status) {
		return nil
	}
	after := s.upgrade.DeepCopy()
	after.Status = o.Status
	was, is := conditions.Get(s.upgrade, upgradev1.Progressing), conditions.Get(after, upgradev1.Progressing)
	if err := c.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(s.upgrade, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of NodeUpgrade %s: %w", s.upgrade.Name, err)
	}
	s.upgrade = after
	if is != nil && (was == nil || was.Reason != is.Reason) {
		c.announce(ctx, after, is)
	}
	return nil
}

// reportAgain has the status of an upgrade that is done say so where a move or a restored backup has lost it.
func (c *Controller) reportAgain(ctx context.Context, s *scope) error {
	if !s.upgrade.DeletionTimestamp.IsZero() || ptr.Deref(s.upgrade.Status.Completed, false) {
		return nil
	}
	return c.report(ctx, s, upgradepod.Decide(upgradepod.Facts{Now: time.Now(), Upgrade: s.upgrade}))
}

// announce tells by an event and a log line how far an upgrade is.
func (c *Controller) announce(ctx context.Context, u *upgradev1.NodeUpgrade, is *metav1.Condition) {
	kind := corev1.EventTypeNormal
	if is.Reason == upgradev1.Failed || is.Reason == upgradev1.RolledBack {
		kind = corev1.EventTypeWarning
	}
	ctrl.LoggerFrom(ctx).Info("Node upgrade", "node upgrade", u.Name, "machine", u.Spec.Machine.Name, "reason", is.Reason, "message",
		is.Message)
	c.Recorder.Eventf(u, nil, kind, is.Reason, "Upgrade", "%s", upgradepod.Note(u, is))
}

// dropRetry takes away the annotation by which a person asked for another try.
func (c *Controller) dropRetry(ctx context.Context, s *scope) error {
	if _, asked := s.upgrade.Annotations[upgradev1.RetryAnnotation]; !asked {
		return nil
	}
	after := s.upgrade.DeepCopy()
	delete(after.Annotations, upgradev1.RetryAnnotation)
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(s.upgrade, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("taking the annotation %s off NodeUpgrade %s: %w", upgradev1.RetryAnnotation, s.upgrade.Name, err)
	}
	s.upgrade = after
	return nil
}

// finish removes all that was made, and lets go of the Machine and the NodeUpgrade. While the managed cluster does not answer it is tried
// again.
func (c *Controller) finish(ctx context.Context, s *scope, w *look) error {
	if err := c.releaseMachine(ctx, s); err != nil {
		return err
	}
	if err := w.cleanUp(ctx, s.upgrade); err != nil && !s.gone() {
		ctrl.LoggerFrom(ctx).V(1).Info("Could not remove what was made in the managed cluster", "error", err.Error())
		return nil
	}
	return c.disown(ctx, s)
}

// gone reports whether the Machine or its cluster is about to go, with all that was made there.
func (s *scope) gone() bool {
	return s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() || s.machine == nil || !s.machine.DeletionTimestamp.IsZero()
}

// remove ends a NodeUpgrade that is being deleted. While it is paused others may be moving it: nothing is touched.
func (c *Controller) remove(ctx context.Context, s *scope) (ctrl.Result, error) {
	if s.paused() {
		return ctrl.Result{}, nil
	}
	if upgradepod.StateOf(s.upgrade) != upgradepod.Waiting {
		if removed := c.removeMade(ctx, s); !removed && !s.gone() {
			return ctrl.Result{RequeueAfter: upgradepod.SoonFailed}, nil
		}
	}
	if err := c.releaseMachine(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, c.disown(ctx, s)
}

// removeMade removes what was made in the managed cluster, and reports whether that is so.
func (c *Controller) removeMade(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	_, w := c.open(ctx, s)
	defer w.close()
	err := w.cleanUp(ctx, s.upgrade)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Could not remove what was made in the managed cluster", "error", err.Error())
	}
	return err == nil
}
