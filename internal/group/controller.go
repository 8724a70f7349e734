package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/inplace"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinepools,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch

// Controller takes the turns of all groups of one kind.
type Controller struct {
	// Client reads from the cache, and is handed to package act, which writes. APIReader reads from the API server:
	// secrets, and whether an own write still stands.
	Client    client.Client
	APIReader client.Reader
	// Workload keeps the connections to the managed clusters: *workload.Connections.
	Workload observe.Workloads
	// Recorder writes events.
	Recorder events.EventRecorder
	// WatchFilter is the value of Cluster API's watch-filter label that objects
	// must have to be looked at; empty: all are.
	WatchFilter string
	// LeaveLabelled leaves a group that has that label to the manager that
	// looks for its value: for a Controller without a WatchFilter that another manager may run beside.
	LeaveLabelled bool
	// Kind is what its groups have of their own.
	Kind Kind
	// Quorums reaches etcd. Nil: SetupWithManager makes one that asks the clusters themselves.
	Quorums observe.Quorums
	// EtcdEndpoints asks etcds that run elsewhere. Nil: they are not asked; SetupWithManager makes one that asks them with the clusters'
	// secrets.
	EtcdEndpoints observe.EtcdEndpoints
	// Kubeadm reaches what kubeadm left in the clusters. Nil: the clusters are asked themselves.
	Kubeadm observe.KubeadmFiles
	// Memories are what is kept of each group between turns.
	Memories Memories

	// RetellAfter is how long what only says the same in other words may wait to be written. SetupWithManager makes it RetellTime; 0: it is
	// written at once.
	RetellAfter time.Duration
	// Keys limits the turns that make keys at the same time, Slots all turns.
	Keys  act.KeyMakers
	Slots observe.Slots
	// Upgraders finds the images that upgrade nodes in place. Nil: nothing is looked up.
	Upgraders *inplace.Upgraders
	// ForwardOnly: ports on machines are reached through the managed clusters' API servers alone.
	ForwardOnly bool
	// Wakes brings about turns of groups; nil: no receiver. SetupWithManager makes it.
	Wakes chan event.GenericEvent

	// watched are the objects beside Machines whose changes bring about turns.
	watched observe.Watched
}

// Observe looks at a group, and returns the turn that goes on with what was seen. While an own
// write is not to be seen yet, it returns how long to wait for it instead.
func (c *Controller) Observe(ctx context.Context, object observe.Object, cluster *clusterv1.Cluster) (*Turn, time.Duration, error) {
	of := c.Memories.all(client.ObjectKeyFromObject(object))
	seen, wait, err := observe.Observe(ctx, c.sources(), c.Kind, &of.Memory, object, cluster)
	if err != nil || wait > 0 {
		return nil, wait, err
	}
	return c.turnOf(seen, of), 0, nil
}

// Begin makes a turn of what the objects themselves say.
func (c *Controller) Begin(object observe.Object, cluster *clusterv1.Cluster, machines observe.Machines, now time.Time) *Turn {
	of := c.Memories.all(client.ObjectKeyFromObject(object))
	return c.turnOf(observe.Begin(c.sources(), c.Kind, &of.Memory, object, cluster, machines, now), of)
}

// turnOf is a turn that goes on with what was seen.
func (c *Controller) turnOf(seen *observe.Observer, of *kept) *Turn {
	return &Turn{Writer: act.NewWriter(seen, act.NewClient(c.Client), c.Kind), Controller: c, past: &of.past}
}

// sources are where what is known of groups comes from.
func (c *Controller) sources() observe.Sources {
	from := observe.Sources{
		Cache: c.Client, APIReader: c.APIReader, Workload: c.Workload, Quorums: c.Quorums, EtcdEndpoints: c.EtcdEndpoints, Kubeadm: c.Kubeadm,
		Upgraders: c.Upgraders, ForwardOnly: c.ForwardOnly, Wakes: c.Wakes, Watched: &c.watched,
	}
	if c.Client != nil {
		from.Scheme, from.DryRun = c.Client.Scheme(), client.NewDryRunClient(c.Client)
	}
	return from
}

// metrics are those of all groups of the kind.
func (c *Controller) metrics() Metrics { return Metrics(c.Kind.Type().Kind) }

// Reconcile takes one turn of one group.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	began := time.Now()
	if wait := c.Memories.Early(request.NamespacedName, began); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	ctx, leave := c.Slots.Enter(ctx)
	defer leave()
	c.metrics().Turn(time.Since(began))
	object := c.Kind.New()
	if err := c.Client.Get(ctx, request.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			c.Forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading %s %s: %w", c.Kind.Type().Kind, request, err)
	}
	if manager := c.otherManager(object); manager != "" {
		c.Forget(request.NamespacedName)
		return ctrl.Result{}, c.reportUnmanaged(ctx, object, "OtherManager",
			fmt.Sprintf("another manager keeps %s: it has the label %s=%s", object.GetName(), clusterv1.WatchLabel, manager))
	}
	cluster, err := c.owner(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil {
		c.metrics().Forget(request.NamespacedName)
		return c.reportNoCluster(ctx, object)
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("cluster", cluster.Name))
	if object.GetDeletionTimestamp().IsZero() && !controllerutil.ContainsFinalizer(object, c.Kind.Type().Finalizer) {
		return ctrl.Result{}, c.ensureFinalizer(ctx, object)
	}
	return c.turn(ctx, object, cluster)
}

// owner returns the Cluster that owns a group; nil if there is none. A group that
// is deleted may outlive its Cluster, and must still be able to go.
func (c *Controller) owner(ctx context.Context, object observe.Object) (*clusterv1.Cluster, error) {
	cluster, err := util.GetOwnerCluster(ctx, c.Client, metav1.ObjectMeta{Namespace: object.GetNamespace(),
		OwnerReferences: object.GetOwnerReferences()})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the Cluster that owns %s %s: %w", c.Kind.Type().Kind, object.GetName(), err)
	}
	if cluster != nil && err == nil {
		return cluster, nil
	}
	name := observe.ClusterName(c.Kind, object)
	if name == "" {
		return nil, nil
	}
	if object.GetDeletionTimestamp().IsZero() {
		return c.named(ctx, object, name)
	}
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: name}}, nil
}

// named returns the Cluster of that name; nil if there is none.
func (c *Controller) named(ctx context.Context, object observe.Object, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Cluster of %s %s: %w", c.Kind.Type().Kind, object.GetName(), err)
	}
	return cluster, nil
}

// otherManager is the manager that a label leaves a group to; empty: the group is ours.
func (c *Controller) otherManager(object observe.Object) string {
	if !c.LeaveLabelled {
		return ""
	}
	return object.GetLabels()[clusterv1.WatchLabel]
}

// reportNoCluster says that a group belongs to no Cluster yet, and when to look again.
func (c *Controller) reportNoCluster(ctx context.Context, object observe.Object) (ctrl.Result, error) {
	// Its event comes with the owner reference; of one that a label names, none comes.
	again := time.Duration(0)
	if c.Kind.Type().Standalone {
		again = observe.SoonAtRest
	}
	return ctrl.Result{RequeueAfter: again}, c.reportUnmanaged(ctx, object, "NoCluster", "no Cluster owns "+object.GetName()+
		"; one does once its spec.controlPlaneRef names it")
}

// reportUnmanaged writes to the status why Quorate does not manage a group: another manager does, or no Cluster owns it. The
// group is not observed.
func (c *Controller) reportUnmanaged(ctx context.Context, object observe.Object, reason, message string) error {
	d := plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: "hold", Reason: reason, Message: message}
	after := object.DeepCopyObject().(observe.Object)
	before, told := *c.Kind.Status(object).Plan, c.Kind.Status(after).Plan
	*told = status.PlanStatus(d, nil)
	if *told == before {
		return nil
	}
	Announce(ctx, c.Recorder, object, before, d, false, nil)
	if err := act.NewClient(c.Client).MergeStatus(ctx, object, after); err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", c.Kind.Type().Kind, object.GetName(), err)
	}
	return nil
}

// ensureFinalizer adds the finalizer, before anything is made that must be taken down in order.
func (c *Controller) ensureFinalizer(ctx context.Context, object observe.Object) error {
	err := act.NewClient(c.Client).AddFinalizer(ctx, object, c.Kind.Type().Finalizer)
	if act.IgnoreStale(err) != nil {
		return fmt.Errorf("adding the finalizer to %s %s: %w", c.Kind.Type().Kind, object.GetName(), err)
	}
	return nil
}

// turn observes, decides, acts and reports.
func (c *Controller) turn(ctx context.Context, object observe.Object, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	m := c.keepOnly(object, cluster)
	defer func() { m.past.ended = time.Now() }()
	t, unseen, err := c.Observe(ctx, object, cluster)
	var d plan.Decision
	var told controlplanev1.PlanStatus
	if err == nil && unseen == 0 {
		told = *c.Kind.Status(t.Object).Plan
		d, err = t.decide(ctx, told)
	}
	switch {
	case errors.Is(err, observe.ErrSurveyRuns):
		return ctrl.Result{RequeueAfter: observe.SurveyTimeout}, nil // its end comes as an event
	case errors.Is(err, errRested):
		return c.turn(ctx, object, cluster)
	case err != nil || unseen > 0:
		return ctrl.Result{RequeueAfter: unseen}, err
	}
	t.note()
	return c.carryOut(ctx, t, told, d)
}

// decide returns what is to be done, confirmed where it is a step. told is what the status says of the last decision.
func (t *Turn) decide(ctx context.Context, told controlplanev1.PlanStatus) (plan.Decision, error) {
	d := t.Decide(ctx, told)
	if !d.Step.Acts() {
		return d, nil
	}
	if t.Memory.Rests {
		t.Memory.Rests = false
		return d, errRested
	}
	return t.Confirm(ctx, d)
}

// carryOut does what was decided, reports it, and says when to look again. told is what the status said of the decision before.
func (c *Controller) carryOut(ctx context.Context, t *Turn, told controlplanev1.PlanStatus, d plan.Decision) (ctrl.Result, error) {
	failure := t.act(ctx, d)
	switch {
	case apierrors.IsConflict(failure):
		// Decided on facts that are no longer true: nothing was done, and nothing is told.
		return ctrl.Result{RequeueAfter: observe.SoonAfterConflict}, nil
	case errors.Is(failure, errKeysWait):
		return ctrl.Result{RequeueAfter: observe.SoonKeys}, nil
	case d.Step.Verb == plan.Finish && failure == nil:
		Announce(ctx, c.Recorder, t.Object, told, d, false, nil)
		c.Forget(t.Key())
		return ctrl.Result{}, nil
	}
	err := t.report(ctx, d, failure)
	t.keepHistory(ctx, d, failure)
	t.prepare(d)
	switch {
	case failure != nil:
		return ctrl.Result{}, failure
	case act.IsStale(err):
		return ctrl.Result{RequeueAfter: observe.SoonAfterConflict}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: t.Again(d)}, nil
}

// prepare keeps what the next turn needs to know of this one, and asks for a
// connection to the cluster as soon as there can be one.
func (t *Turn) prepare(d plan.Decision) {
	t.KeepReads()
	t.Memory.Surveys.Rest, t.Memory.Rests = t.rest(d), t.steady(d)
	rests := t.Memory.Surveys.Rest == observe.SurveyAgeSteady && t.Memory.Surveys.Running() == nil
	if rests && !t.Memory.Compared.Runs() { // it would end with its connections
		t.Quorums.Rest(t.ClusterKey())
	}
	if rests && t.Surveys() {
		observe.LookOut(t.Observer)
	} else {
		t.Memory.Surveys.LookAway()
	}
	if t.Surveys() && (rests || observe.IsDoubted(t.View)) {
		observe.Compare(t.Observer)
	} else {
		t.Memory.Compared.Stop()
	}
	t.Memories.Moves(t.Key(), t.moves())
	if len(t.Machines) > 0 && !t.Nodeless && (t.Kubeconfig.Exists || t.Facts.Group.Deleting) {
		key := t.ClusterKey()
		t.Workload.Want(key, t.Busy())
		t.Workload.Own(key, t.Mine()) // also where the connection is new
	}
}

// Confirm holds a step that takes from the quorum against facts that are as new
// as can be: etcd may have changed since it was asked. It is asked once more for this step, and when that
// takes longer than a turn waits, a later turn, which decides again, finds the answer. That answer
// counts only where all else is as it was when etcd was asked: the step never rests on a survey
// that is older than the other facts.
func (t *Turn) Confirm(ctx context.Context, d plan.Decision) (plan.Decision, error) {
	if !d.Step.ChangesQuorum() || !t.Surveys() {
		return d, nil
	}
	renewed, err := t.Memory.Surveys.Confirm(ctx, t.Asker(), t.Around(), d.Step.String())
	if err != nil || !renewed {
		return d, err
	}
	t.UseSurvey()
	t.Resurvey = 0
	now := t.Decide(ctx, *t.Kind.Status(t.Object).Plan)
	if now.Step != d.Step && now.Step.Acts() {
		return plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: d.Rule, Reason: "FactsChanged", Again: observe.SoonAfterConflict,
			Message: fmt.Sprintf("%s was the next step until etcd was asked once more; now it is %s", d.Step, now.Step)}, nil
	}
	return now, nil
}

// act carries a step out, counts it, records it and logs it.
func (t *Turn) act(ctx context.Context, d plan.Decision) error {
	if !d.Step.Acts() {
		return nil
	}
	if t.Facts.MakesKeys(d.Step) {
		if !t.Keys.Begin() {
			return errKeysWait
		}
		defer t.Keys.End()
	}
	fact, began := t.newest(), time.Now()
	t.past.history.Approvals(t.Object) // the step may take them away
	err := t.Do(ctx, d.Step)
	for _, name := range t.Changed {
		t.noteStep(name)
	}
	delay := time.Since(fact)
	t.metrics().Step(d, Timing{Delay: delay, Write: time.Since(began)}, err)
	t.past.history.Step(d, began, err)
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Did", "step", d.Step.String(), "reason", d.Reason, "since_fact", delay.Round(time.Millisecond).String())
	}
	return err
}

// keepOnly returns what is kept of a group. It drops what is of an earlier one of the same name, or of one of an earlier Cluster: no turn
// may have come while there was none.
func (c *Controller) keepOnly(object observe.Object, cluster *clusterv1.Cluster) *kept {
	key, of := client.ObjectKeyFromObject(object), [2]types.UID{object.GetUID(), cluster.GetUID()}
	m := c.Memories.all(key)
	if m.past.of != of && m.past.of != [2]types.UID{} {
		c.Forget(key)
		m = c.Memories.all(key)
	}
	m.past.of = of
	return m
}

// Forget drops all that is kept of a group and its cluster.
func (c *Controller) Forget(key client.ObjectKey) {
	if m := c.Memories.forget(key); m != nil {
		m.Surveys.Forget()
		m.Compared.Stop()
		c.Workload.Forget(m.Cluster)
		c.Quorums.Forget(m.Cluster)
		if c.EtcdEndpoints != nil {
			c.EtcdEndpoints.Forget(m.Cluster)
		}
	}
	c.watched.Keep(key, nil)
	c.metrics().Forget(key)
}
