package plainetcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// machines returns the Machines of the cluster: the etcd's own, those of the control plane, and the workers.
func (r *reconciler) machines(ctx context.Context, e *etcd) (own, controlPlane, workers []clusterv1.Machine, err error) {
	all := &clusterv1.MachineList{}
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: e.GetLabels()[clusterv1.ClusterNameLabel]}
	if err := r.client.List(ctx, all, client.InNamespace(e.GetNamespace()), of); err != nil {
		return nil, nil, nil, fmt.Errorf("listing the Machines of %s: %w", e.GetName(), err)
	}
	for _, m := range all.Items {
		switch {
		case m.Labels[MachineLabel] == e.GetName():
			own = append(own, m)
		case util.IsControlPlaneMachine(&m):
			controlPlane = append(controlPlane, m)
		default:
			workers = append(workers, m)
		}
	}
	return own, controlPlane, workers, nil
}

// goWithCluster deletes the control plane once the last worker is gone, and then the object itself. Cluster API would wait for etcd's
// Machines before it deletes the control plane, which needs etcd to the end.
func (r *reconciler) goWithCluster(ctx context.Context, e *etcd) error {
	_, _, workers, err := r.machines(ctx, e)
	if err != nil || len(workers) > 0 {
		return err
	}
	ref := e.cluster.Spec.ControlPlaneRef
	mapping, err := r.client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return fmt.Errorf("looking for kind %s: %w", ref.Kind, err)
	}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(mapping.GroupVersionKind)
	err = r.client.Get(ctx, client.ObjectKey{Namespace: e.GetNamespace(), Name: ref.Name}, controlPlane)
	switch {
	case apierrors.IsNotFound(err):
		return client.IgnoreNotFound(r.client.Delete(ctx, e.Unstructured))
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	case controlPlane.GetDeletionTimestamp().IsZero():
		return client.IgnoreNotFound(r.client.Delete(ctx, controlPlane))
	}
	return nil
}

// takeDown deletes the members' Machines once no other Machine of the cluster needs them, and the object's secrets after them.
func (r *reconciler) takeDown(ctx context.Context, e *etcd) error {
	own, controlPlane, workers, err := r.machines(ctx, e)
	if err != nil {
		return err
	}
	if others := slices.Concat(controlPlane, workers); len(others) > 0 {
		return r.waitFor(ctx, e, others)
	}
	for i := range own {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, &own[i])); err != nil {
			return fmt.Errorf("deleting Machine %s: %w", own[i].Name, err)
		}
	}
	if len(own) > 0 {
		return nil
	}
	secrets := &corev1.SecretList{}
	if err := r.client.List(ctx, secrets, client.InNamespace(e.GetNamespace())); err != nil {
		return fmt.Errorf("listing the secrets of %s: %w", e.GetName(), err)
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; isOwned(s, e) {
			if err := client.IgnoreNotFound(r.client.Delete(ctx, s)); err != nil {
				return fmt.Errorf("deleting secret %s: %w", s.Name, err)
			}
		}
	}
	after := e.DeepCopy()
	controllerutil.RemoveFinalizer(after, finalizer)
	return client.IgnoreNotFound(r.client.Patch(ctx, after, client.MergeFrom(e.Unstructured)))
}

// waitFor writes into the status for which Machines the members stay.
func (r *reconciler) waitFor(ctx context.Context, e *etcd, others []clusterv1.Machine) error {
	var names []string
	for i := range others {
		names = append(names, others[i].Name)
	}
	after := e.DeepCopy()
	if err := unstructured.SetNestedField(after.Object, "members stay for Machines "+strings.Join(names, ", "), "status", "plan",
		"message"); err != nil {
		return fmt.Errorf("writing the status of %s: %w", e.GetName(), err)
	}
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, after, client.MergeFrom(e.Unstructured)))
}

// isOwned reports whether the object controls a secret.
func isOwned(s *corev1.Secret, e *etcd) bool {
	for _, owner := range s.OwnerReferences {
		if owner.UID == e.GetUID() {
			return true
		}
	}
	return false
}

// createInfrastructure creates a member's infrastructure machine, unless it is there. Its Machine becomes its owner, and takes it down.
func (r *reconciler) createInfrastructure(ctx context.Context, e *etcd, o *unstructured.Unstructured) error {
	o.SetNamespace(e.GetNamespace())
	o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: e.cluster.Name})
	err := r.client.Create(ctx, o)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
