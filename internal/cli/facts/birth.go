package facts

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/kinds/etcdcluster"
)

// A cluster that is only given, and the objects that belong to it, are as Cluster API and the infrastructure make them once they are there.
// The cluster's infrastructure is ready and has an endpoint, and the groups have an owner.

// yetToCome is the endpoint of a cluster whose infrastructure will give it one.
const yetToCome = "endpoint.invalid"

// bear makes of a cluster that is only given what others make of it.
func (o overlay) bear(ctx context.Context, key client.ObjectKey) error {
	cluster, err := o.bornCluster(ctx, key)
	if err != nil {
		return err
	}
	if cluster != nil {
		for _, of := range []struct {
			value any
			path  []string
		}{
			{true, []string{"status", "initialization", "infrastructureProvisioned"}},
			{map[string]any{"host": yetToCome, "port": int64(6443)}, []string{"spec", "controlPlaneEndpoint"}},
		} {
			if _, said, _ := unstructured.NestedFieldNoCopy(cluster.Object, of.path...); said {
				continue
			}
			if err := unstructured.SetNestedField(cluster.Object, of.value, of.path...); err != nil {
				return fmt.Errorf("completing Cluster %s as it would be: %w", key, err)
			}
		}
	}
	return o.own(ctx, key)
}

// bornCluster is a cluster that is only given; nil: it exists.
func (o overlay) bornCluster(ctx context.Context, key client.ObjectKey) (*unstructured.Unstructured, error) {
	err := o.Reader.Get(ctx, key, &clusterv1.Cluster{})
	if err == nil {
		return nil, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading cluster %s: %w", key, err)
	}
	want := clusterv1.GroupVersion.WithKind("Cluster")
	for of, object := range o.changed {
		if of.GroupKind() != want.GroupKind() || of.ObjectKey != key {
			continue
		}
		if of.GroupVersionKind != want {
			return nil, fmt.Errorf("reading Cluster %s as it would be: invalid apiVersion %s: must be %s for a cluster that does not exist yet", key,
				of.GroupVersion(), want.GroupVersion())
		}
		return object, nil
	}
	return nil, nil
}

// own gives the groups of a cluster that are only given their owner, where they have none.
func (o overlay) own(ctx context.Context, key client.ObjectKey) error {
	cluster := &clusterv1.Cluster{}
	if err := o.Get(ctx, key, cluster); err != nil {
		return client.IgnoreNotFound(err) // the next reader reports it
	}
	owner := metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	for of, object := range o.changed {
		if of.Namespace == key.Namespace && isGroupOf(cluster, of.GroupVersionKind, object) && len(object.GetOwnerReferences()) == 0 {
			object.SetOwnerReferences([]metav1.OwnerReference{*owner})
		}
	}
	return nil
}

// isGroupOf reports whether an object of a Cluster's namespace is the Cluster's control plane, or its etcd.
func isGroupOf(cluster *clusterv1.Cluster, kind schema.GroupVersionKind, object client.Object) bool {
	ref := cluster.Spec.ControlPlaneRef
	isControlPlane := kind.Group == ref.APIGroup && kind.Kind == ref.Kind && object.GetName() == ref.Name
	isEtcd := kind == etcdcluster.New().Type().GroupVersionKind && object.GetLabels()[clusterv1.ClusterNameLabel] == cluster.Name
	return isControlPlane || isEtcd
}

// List implements client.Reader. Of kinds whose metadata alone are listed, those are among them that are only given.
func (o overlay) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	list, is := into.(*metav1.PartialObjectMetadataList)
	kind := into.GetObjectKind().GroupVersionKind()
	if err := o.Reader.List(ctx, into, options...); err != nil || !is {
		return err
	}
	var asked client.ListOptions
	asked.ApplyOptions(options)
	there := map[client.ObjectKey]bool{}
	for i := range list.Items {
		there[client.ObjectKeyFromObject(&list.Items[i])] = true
	}
	for of, object := range o.changed {
		matches := asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(object.GetLabels()))
		if of.GroupVersionKind != kind || of.Namespace != asked.Namespace || there[of.ObjectKey] || !matches {
			continue
		}
		added := metav1.PartialObjectMetadata{}
		added.SetNamespace(of.Namespace)
		added.SetName(of.Name)
		list.Items = append(list.Items, added)
	}
	return nil
}
