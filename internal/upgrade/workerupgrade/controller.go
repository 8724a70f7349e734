package workerupgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/workerplan"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=machinedeploymentupgrades,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=machinedeploymentupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=machinedeploymentupgrades/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinesets,verbs=list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes;controlplanes,verbs=get;list;watch

// again is how soon the controller looks again at what it waits for and what brings no event: the control plane, of whatever kind.
const again = 5 * time.Second

// Controller upgrades the machines of MachineDeployments in place that ask for it by upgradev1.PolicyAnnotation.
type Controller struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Recorder writes events.
	Recorder events.EventRecorder
	// WatchFilter is the value of Cluster API's watch-filter label that objects must have to be looked at; empty: all are.
	WatchFilter string
	// Upgraders finds the images that upgrade nodes. Nil: nothing is looked up.
	Upgraders *upgraders.Images
}

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	if c.Recorder == nil {
		c.Recorder = mgr.GetEventRecorder("quorate")
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("workerupgrade").
		For(&clusterv1.MachineDeployment{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), c.WatchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&upgradev1.NodeUpgrade{}, handler.EnqueueRequestsFromMapFunc(c.ofNode)).
		Watches(&upgradev1.MachineDeploymentUpgrade{}, handler.EnqueueRequestsFromMapFunc(ofUpgrade)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the controller of workers that are upgraded in place: %w", err)
	}
	return nil
}

func request(namespace, name string) []ctrl.Request {
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// ofMachine maps a Machine to its MachineDeployment.
func ofMachine(_ context.Context, o client.Object) []ctrl.Request {
	return request(o.GetNamespace(), o.GetLabels()[clusterv1.MachineDeploymentNameLabel])
}

// ofUpgrade maps a MachineDeploymentUpgrade to its MachineDeployment.
func ofUpgrade(_ context.Context, o client.Object) []ctrl.Request {
	return request(o.GetNamespace(), o.(*upgradev1.MachineDeploymentUpgrade).Spec.MachineDeployment.Name)
}

// ofNode maps a NodeUpgrade to the MachineDeployment of its Machine.
func (c *Controller) ofNode(ctx context.Context, o client.Object) []ctrl.Request {
	m := &clusterv1.Machine{}
	name := o.(*upgradev1.NodeUpgrade).Spec.Machine.Name
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, m); err != nil {
		return nil
	}
	return ofMachine(ctx, m)
}

// Reconcile looks at one MachineDeployment once, and takes one step.
func (c *Controller) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	s := &scope{deployment: &clusterv1.MachineDeployment{}}
	if err := c.Client.Get(ctx, r.NamespacedName, s.deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !s.deployment.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if err := c.read(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if _, chosen := s.deployment.Annotations[upgradev1.PolicyAnnotation]; !chosen && len(s.upgrades) == 0 {
		return ctrl.Result{}, nil
	}
	o, err := c.observe(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := c.turn(ctx, s, o)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: again}, nil // it was decided on what is no longer true
	}
	return result, err
}

// turn decides once, and does what was decided.
func (c *Controller) turn(ctx context.Context, s *scope, o workerplan.Observed) (ctrl.Result, error) {
	d := workerplan.Next(o)
	if err := workerplan.Check(o, d.Step); err != nil {
		return ctrl.Result{}, fmt.Errorf("checking the step of MachineDeployment %s: %w", s.deployment.Name, err)
	}
	if err := c.bookkeep(ctx, s, o, d); err != nil {
		return ctrl.Result{}, err
	}
	if err := c.do(ctx, s, d.Step); err != nil {
		return ctrl.Result{}, err
	}
	if d.Step.Verb == workerplan.Nothing {
		return ctrl.Result{}, nil
	}
	if d.Step.Verb != workerplan.Wait {
		c.tell(ctx, s, d)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// tell says in log and event which step was taken.
func (c *Controller) tell(ctx context.Context, s *scope, d workerplan.Decision) {
	ctrl.LoggerFrom(ctx).Info("Worker upgrade", "step", string(d.Step.Verb), "machine", d.Step.Machine, "machine set", d.Step.Set, "reason",
		d.Reason, "message", d.Message)
	c.Recorder.Eventf(s.deployment, nil, corev1.EventTypeNormal, d.Reason, string(d.Step.Verb), "%s", d.Message)
}

// machine returns the Machine of that name; nil: there is none.
func (s *scope) machine(name string) *clusterv1.Machine {
	at := slices.IndexFunc(s.machines, func(m *clusterv1.Machine) bool { return m.Name == name })
	if at < 0 {
		return nil
	}
	return s.machines[at]
}
