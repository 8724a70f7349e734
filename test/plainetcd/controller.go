// Package plainetcd is a provider of etcd that knows Cluster API and the contract in docs/etcd.md, and nothing else of Quorate: tests have
// a control plane keep its data in what it runs. Its members are as many Machines as its object names, at fixed addresses. It replaces
// none.
package plainetcd

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"
)

// Kind is that of the provider's objects.
var Kind = schema.GroupVersionKind{Group: "etcd.example.org", Version: "v1alpha1", Kind: "PlainEtcd"}

// Resource is its resource.
const Resource = "plainetcds"

// MachineLabel is on Machines of etcd, by the contract; its value is the name of the object that they belong to.
const MachineLabel = "cluster.x-k8s.io/etcd-cluster"

// finalizer keeps the object until its machines are gone.
const finalizer = "etcd.example.org/machines"

// again is how often the members and the Machines are looked at.
const again = time.Second

//go:embed crd.yaml
var definition []byte

// Definition is the CustomResourceDefinition of the provider's objects.
func Definition() (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(definition, &o.Object); err != nil {
		return nil, fmt.Errorf("reading the definition: %w", err)
	}
	return o, nil
}

// spec is that of an object.
type spec struct {
	Archive        string `json:"archive"`
	Infrastructure struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	} `json:"infrastructure"`
	Members []struct {
		Address            string         `json:"address"`
		InfrastructureSpec map[string]any `json:"infrastructureSpec"`
	} `json:"members"`
}

// etcd is an object with what it belongs to.
type etcd struct {
	*unstructured.Unstructured
	spec    spec
	cluster *clusterv1.Cluster
}

// reconciler has the members run that objects name.
type reconciler struct {
	client client.Client
	// healthy reports whether a member serves at an address; nil: the member itself is asked.
	healthy func(ctx context.Context, keys *authority, address string) bool
}

// Run runs the provider until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("naming kinds: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(Kind)
	skip := true // a test may run the provider twice
	if err := ctrl.NewControllerManagedBy(mgr).For(object).Owns(&clusterv1.Machine{}).
		WithOptions(controller.Options{SkipNameValidation: &skip}).Complete(&reconciler{client: mgr.GetClient()}); err != nil {
		return fmt.Errorf("making the controller: %w", err)
	}
	return mgr.Start(ctx)
}

// Reconcile brings an object closer to what it wants.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e := &etcd{Unstructured: &unstructured.Unstructured{}}
	e.SetGroupVersionKind(Kind)
	if err := r.client.Get(ctx, req.NamespacedName, e.Unstructured); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	fields, _, _ := unstructured.NestedMap(e.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &e.spec); err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the spec of %s: %w", req, err)
	}
	cluster, err := util.GetClusterByName(ctx, r.client, req.Namespace, e.GetLabels()[clusterv1.ClusterNameLabel])
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("reading the Cluster of %s: %w", req, err)
	}
	e.cluster = cluster
	switch {
	case !e.GetDeletionTimestamp().IsZero():
		err = r.takeDown(ctx, e)
	case e.cluster == nil:
		return ctrl.Result{RequeueAfter: again}, nil
	case !e.cluster.DeletionTimestamp.IsZero():
		err = r.goWithCluster(ctx, e)
	default:
		err = r.keep(ctx, e)
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// keep has the secrets and the members there, and hands the endpoints over once all members serve.
func (r *reconciler) keep(ctx context.Context, e *etcd) error {
	owned := e.DeepCopy()
	controllerutil.AddFinalizer(owned, finalizer)
	if err := controllerutil.SetOwnerReference(e.cluster, owned, r.client.Scheme()); err != nil {
		return fmt.Errorf("naming the owner of %s: %w", e.GetName(), err)
	}
	if err := r.client.Patch(ctx, owned, client.MergeFrom(e.Unstructured)); err != nil {
		return fmt.Errorf("keeping %s until its machines are gone: %w", e.GetName(), err)
	}
	e.Unstructured = owned
	keys, err := r.secrets(ctx, e)
	if err != nil {
		return err
	}
	for i := range e.spec.Members {
		if err := r.member(ctx, e, keys, i); err != nil {
			return err
		}
	}
	return r.report(ctx, e, keys)
}

// report writes what the contract has in the status. Once ready, it stays ready.
func (r *reconciler) report(ctx context.Context, e *etcd, keys *authority) error {
	ask := r.healthy
	if ask == nil {
		ask = serves
	}
	serve := 0
	var endpoints []string
	for _, m := range e.spec.Members {
		endpoints = append(endpoints, "https://"+net.JoinHostPort(m.Address, clientPort))
		if ask(ctx, keys, m.Address) {
			serve++
		}
	}
	ready, _, _ := unstructured.NestedBool(e.Object, "status", "ready")
	ready = ready || serve == len(e.spec.Members)
	status := map[string]any{"ready": ready,
		"plan": map[string]any{"message": fmt.Sprintf("%d of %d members serve", serve, len(e.spec.Members))}}
	if ready {
		status["endpoints"] = strings.Join(endpoints, ",")
	}
	after := e.DeepCopy()
	after.Object["status"] = status
	if err := r.client.Status().Patch(ctx, after, client.MergeFrom(e.Unstructured)); err != nil {
		return fmt.Errorf("writing the status of %s: %w", e.GetName(), err)
	}
	return nil
}

// create creates an object of the etcd's, unless there is one of its name.
func (r *reconciler) create(ctx context.Context, e *etcd, o client.Object) error {
	o.SetNamespace(e.GetNamespace())
	labels := map[string]string{clusterv1.ClusterNameLabel: e.cluster.Name}
	for name, value := range o.GetLabels() {
		labels[name] = value
	}
	o.SetLabels(labels)
	if err := controllerutil.SetControllerReference(e.Unstructured, o, r.client.Scheme()); err != nil {
		return fmt.Errorf("naming the owner of %s: %w", o.GetName(), err)
	}
	if err := r.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s: %w", o.GetName(), err)
	}
	return nil
}

// secret returns a secret of the etcd's, which is created with data where there is none.
func (r *reconciler) secret(ctx context.Context, e *etcd, name string, data func() (map[string][]byte, error)) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: e.GetNamespace(), Name: name}, s)
	if err == nil || !apierrors.IsNotFound(err) {
		return s, err
	}
	s.Name, s.Type = name, clusterv1.ClusterSecretType
	if s.Data, err = data(); err != nil {
		return nil, fmt.Errorf("making secret %s: %w", name, err)
	}
	return s, r.create(ctx, e, s)
}
