package facts

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group"
)

// Plans forecasts what happens to a cluster's etcd clusters on machines of their own, and then to its control plane, if objects were as they are
// given in changed, whole and as the API server would store them. Nothing is written.
func Plans(ctx context.Context, c client.Client, key client.ObjectKey, changed []*unstructured.Unstructured) ([]report.Plan, error) {
	from := overlay{Client: c, changed: map[changedKey]*unstructured.Unstructured{}}
	for _, o := range changed {
		from.changed[changedKey{o.GroupVersionKind(), client.ObjectKeyFromObject(o)}] = o
	}
	objects, err := Read(ctx, from, key)
	if err != nil {
		return nil, err
	}
	if objects.ControlPlane == nil {
		return nil, noControlPlane(objects.Cluster)
	}
	var plans []report.Plan
	for _, of := range append(objects.EtcdClusters, objects.ControlPlane) {
		observed, following, err := group.ObserveAll(ctx, from, of.Kind, of.Key)
		if err != nil {
			return nil, fmt.Errorf("observing cluster %s: %w", key, err)
		}
		past, err := historyOf(ctx, c, key, of)
		if err != nil {
			return nil, err
		}
		plans = append(plans, report.NewPlan(key, Title(of), observed, following, past))
	}
	return plans, nil
}

// Title names a group: its kind and its name.
func Title(of *Group) string { return of.Kind.Type().Kind + " " + of.Key.Name }

// ErrNoControlPlane says that a cluster has no control plane of a kind that is known here.
var ErrNoControlPlane = errors.New("there is nothing to plan")

func noControlPlane(cluster *clusterv1.Cluster) error {
	return fmt.Errorf("cluster %s/%s has no %s yet: %w", cluster.Namespace, cluster.Name, wantedKind(cluster), ErrNoControlPlane)
}

// ControlPlane names the control plane of a cluster, to be changed.
func ControlPlane(ctx context.Context, c client.Reader, key client.ObjectKey) (*unstructured.Unstructured, error) {
	objects, err := Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	if objects.ControlPlane == nil {
		return nil, noControlPlane(objects.Cluster)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(objects.ControlPlane.Kind.Type().GroupVersionKind)
	o.SetNamespace(objects.ControlPlane.Key.Namespace)
	o.SetName(objects.ControlPlane.Key.Name)
	return o, nil
}

// overlay reads objects, some of which are as if they had been changed.
type overlay struct {
	client.Client
	changed map[changedKey]*unstructured.Unstructured
}

type changedKey struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// Get implements client.Reader.
func (o overlay) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(object, o.Scheme())
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	changed := o.changed[changedKey{gvk, key}]
	if changed == nil {
		return o.Client.Get(ctx, key, object, options...)
	}
	if generic, ok := object.(*unstructured.Unstructured); ok {
		changed.DeepCopyInto(generic)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, object); err != nil {
		return fmt.Errorf("reading %s %s as it would be: %w", gvk.Kind, key, err)
	}
	return nil
}
