package stacked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinepools,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch

// Reconciler keeps control planes of the kind KubeadmControlPlane.
type Reconciler struct {
	// Client reads from the cache and writes. APIReader reads from the API server:
	// secrets, and whether an own write still stands.
	Client    client.Client
	APIReader client.Reader
	// Workload keeps the connections to the managed clusters: *workload.Connections.
	Workload Workloads
	// Recorder writes events.
	Recorder events.EventRecorder
	// WatchFilter is the value of Cluster API's watch-filter label that objects
	// must have to be looked at; empty: all are.
	WatchFilter string
	// LeaveLabelled leaves a control plane that has that label to whoever looks for its
	// value: for a Reconciler without a WatchFilter that another manager may run beside.
	LeaveLabelled bool
	// Quorums reaches etcd, and Kubeadm tells how far the first machine is. Where
	// they are nil, SetupWithManager makes those that ask the clusters themselves.
	Quorums Quorums
	Kubeadm Kubeadm

	memories memories
	// handshakes with API servers that are asked for their certificates.
	handshakes errgroup.Group
	keys       keyMakers
	// wakes brings about turns of control planes; nil: nobody listens.
	wakes chan event.GenericEvent
}

// Reconcile takes one turn of one control plane.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := r.Client.Get(ctx, request.NamespacedName, kcp); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading KubeadmControlPlane %s: %w", request, err)
	}
	if manager := kcp.Labels[clusterv1.WatchLabel]; r.LeaveLabelled && manager != "" {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, r.standAside(ctx, kcp, "OtherManager",
			fmt.Sprintf("another manager keeps %s: it has the label %s=%s", kcp.Name, clusterv1.WatchLabel, manager))
	}
	cluster, err := r.owner(ctx, kcp)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil {
		// Its event comes with the owner reference.
		return ctrl.Result{}, r.standAside(ctx, kcp, "NoCluster", "no Cluster owns "+kcp.Name+"; one does once its spec.controlPlaneRef names it")
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("cluster", cluster.Name))
	if kcp.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(kcp, upstream.KubeadmControlPlaneFinalizer) {
		return ctrl.Result{}, r.stay(ctx, kcp)
	}
	return r.turn(ctx, kcp, cluster)
}

// owner returns the Cluster that owns a control plane; nil if there is none. A
// control plane that is deleted may outlive its Cluster, and must still be able to go.
func (r *Reconciler) owner(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (*clusterv1.Cluster, error) {
	cluster, err := util.GetOwnerCluster(ctx, r.Client, kcp.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the Cluster that owns KubeadmControlPlane %s: %w", kcp.Name, err)
	}
	if cluster != nil && err == nil || kcp.DeletionTimestamp.IsZero() {
		return cluster, nil
	}
	name := clusterName(kcp)
	if name == "" {
		return nil, nil
	}
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: kcp.Namespace, Name: name}}, nil
}

// standAside says why nothing at all is done, not even observed.
func (r *Reconciler) standAside(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, reason, message string) error {
	d := plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: "hold", Reason: reason, Message: message}
	after := kcp.DeepCopy()
	after.Status.Plan = group.PlanStatus(d, nil)
	if after.Status.Plan == kcp.Status.Plan {
		return nil
	}
	group.Announce(ctx, r.Recorder, kcp, kcp.Status.Plan, d, nil)
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(kcp)); err != nil {
		return fmt.Errorf("writing the status of KubeadmControlPlane %s: %w", kcp.Name, err)
	}
	return nil
}

// stay adds the finalizer, before anything is made that must be taken down in order.
func (r *Reconciler) stay(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) error {
	after := kcp.DeepCopy()
	controllerutil.AddFinalizer(after, upstream.KubeadmControlPlaneFinalizer)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(kcp, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("adding the finalizer to KubeadmControlPlane %s: %w", kcp.Name, err)
	}
	return nil
}

// turn observes, decides, acts and reports.
func (r *Reconciler) turn(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	m := r.memories.of(client.ObjectKeyFromObject(kcp))
	m.cluster = client.ObjectKeyFromObject(cluster)
	s, unseen, err := r.observe(ctx, kcp, cluster, m)
	if errors.Is(err, group.ErrSurveyRuns) {
		return ctrl.Result{RequeueAfter: group.SurveyTimeout}, nil // its end comes as an event
	}
	if err != nil || unseen > 0 {
		return ctrl.Result{RequeueAfter: unseen}, err
	}
	d := group.Decide(ctx, s.Facts, s.kcp.Status.Plan)
	if d.Step.Acts() {
		d, err = r.confirm(ctx, s, m, d)
		if errors.Is(err, group.ErrSurveyRuns) {
			return ctrl.Result{RequeueAfter: group.SurveyTimeout}, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	m.note(s)
	failure := r.act(ctx, s, m, d)
	switch {
	case apierrors.IsConflict(failure), errors.Is(failure, errKeysWait):
		// Decided on facts that are no longer true, or too early: nothing was done, and nothing is told.
		return ctrl.Result{RequeueAfter: soonAfterConflict}, nil
	case d.Step.Verb == plan.Finish && failure == nil:
		group.Announce(ctx, r.Recorder, kcp, kcp.Status.Plan, d, nil)
		return ctrl.Result{}, nil
	}
	err = r.report(ctx, s, m, d, failure)
	r.prepare(s, m, d)
	switch {
	case failure != nil:
		return ctrl.Result{}, failure
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: soonAfterConflict}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.again(d)}, nil
}

// prepare keeps what the next turn needs to know of this one, and asks for a
// connection to the cluster as soon as there can be one.
func (r *Reconciler) prepare(s *scene, m *memory, d plan.Decision) {
	busy := s.Busy()
	m.surveys.AtRest = !busy && !d.Step.Acts()
	if len(s.Machines) > 0 && (s.Facts.Cluster.Kubeconfig.Exists || s.Facts.Group.Deleting) {
		key := client.ObjectKeyFromObject(s.Cluster)
		r.Workload.Want(key, busy)
		r.Workload.Own(key, group.Mine(slices.Concat(s.Objects(), s.Others)...)) // also where the connection is new
	}
}

// confirm holds a step that takes from the quorum against facts that are as new
// as can be: etcd may have changed since it was asked. It is asked once more for this step, and when that
// takes longer than a turn waits, a later turn, which decides anew, finds the answer. That answer
// counts only where all else is as it was when etcd was asked: the step never rests on a survey
// that is older than the other facts.
func (r *Reconciler) confirm(ctx context.Context, s *scene, m *memory, d plan.Decision) (plan.Decision, error) {
	if !d.Step.ChangesQuorum() || !s.Surveys() {
		return d, nil
	}
	renewed, err := m.surveys.Confirm(ctx, r.asker(s), s.Around(), d.Step.String())
	if err != nil || !renewed {
		return d, err
	}
	s.useSurvey(m)
	now := group.Decide(ctx, s.Facts, s.kcp.Status.Plan)
	if now.Step != d.Step && now.Step.Acts() {
		return plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: d.Rule, Reason: "FactsChanged", Again: soonAfterConflict,
			Message: fmt.Sprintf("%s was the next step until etcd was asked once more; now it is %s", d.Step, now.Step)}, nil
	}
	return now, nil
}

// act carries a step out, counts it and logs it.
func (r *Reconciler) act(ctx context.Context, s *scene, m *memory, d plan.Decision) error {
	if !d.Step.Acts() {
		return nil
	}
	if d.Step.MakesKeys() {
		if !r.keys.begin() {
			return errKeysWait
		}
		defer r.keys.end()
	}
	fact := m.newest(s)
	err := r.do(ctx, s, m, d.Step)
	delay := time.Since(fact)
	metrics.Step(d, delay, err)
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Did", "step", d.Step.String(), "reason", d.Reason, "since_fact", delay.Round(time.Millisecond).String())
	}
	return err
}

// forget drops all that is kept of a control plane and its cluster.
func (r *Reconciler) forget(key client.ObjectKey) {
	if m := r.memories.forget(key); m != nil {
		m.surveys.Forget()
		r.Workload.Forget(m.cluster)
		r.Quorums.Forget(m.cluster)
	}
	metrics.Forget(key)
}
