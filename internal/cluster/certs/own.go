package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Own makes owner the controller of the cluster's own secrets for these purposes, as upstream does at
// each turn. These are those that lost their owner, name it by an old UID or version, or are controlled by another of
// Cluster API's objects. Users' secrets are left alone, no data are changed, and what is right already is not written.
// A secret that changes meanwhile is a conflict.
func Own(
	ctx context.Context, from client.Reader, c client.Client, cluster *clusterv1.Cluster, purposes []string, owner metav1.OwnerReference,
) error {
	for _, purpose := range purposes {
		found, err := get(ctx, from, cluster, secret.Purpose(purpose))
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		after := found.DeepCopy()
		after.OwnerReferences = ownersOf(found, cluster, owner)
		if sameOwners(after.OwnerReferences, found.OwnerReferences) {
			continue
		}
		if err := c.Patch(ctx, after, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("making %s %s the owner of secret %s/%s: %w", owner.Kind, owner.Name, found.Namespace, found.Name, err)
		}
	}
	return nil
}

// ownersOf returns the owners that a secret of the cluster should have: those that it has, where it is not ours to own.
func ownersOf(s *corev1.Secret, cluster *clusterv1.Cluster, owner metav1.OwnerReference) []metav1.OwnerReference {
	isOwner := func(ref metav1.OwnerReference) bool { return sameObject(ref, owner) }
	controller := metav1.GetControllerOf(s)
	if !isOurs(s, cluster, owner) || !s.DeletionTimestamp.IsZero() || !isControlPlaneOf(cluster, owner) {
		return s.OwnerReferences
	}
	owners := slices.DeleteFunc(slices.Clone(s.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return controller != nil && ref.UID == controller.UID && !isOwner(ref)
	})
	at := slices.IndexFunc(owners, isOwner)
	if at < 0 {
		return append(owners, owner)
	}
	// By one name there is one owner; another UID is one that it had before.
	return slices.Insert(slices.DeleteFunc(owners, isOwner), at, owner)
}

// isOurs reports whether a secret is controlled by the owner, under whatever UID, or belongs to the cluster.
func isOurs(s *corev1.Secret, cluster *clusterv1.Cluster, owner metav1.OwnerReference) bool {
	controller := metav1.GetControllerOf(s)
	return controller != nil && sameObject(*controller, owner) || isClusters(s, cluster)
}

// isControlPlaneOf reports whether an owner is the control plane that a cluster names.
func isControlPlaneOf(cluster *clusterv1.Cluster, owner metav1.OwnerReference) bool {
	ref := cluster.Spec.ControlPlaneRef
	return isOf(owner, ref.APIGroup, ref.Kind) && owner.Name == ref.Name
}

// isClusters reports whether a secret is of the type and label of those that Cluster API makes for this
// cluster, and no stranger controls it. A user's secret is of another type, or kept by what made it.
func isClusters(s *corev1.Secret, cluster *clusterv1.Cluster) bool {
	if s.Type != clusterv1.ClusterSecretType || s.Labels[clusterv1.ClusterNameLabel] != cluster.Name {
		return false
	}
	controller := metav1.GetControllerOf(s)
	return controller == nil || isClusterAPIs(*controller)
}

// isClusterAPIs reports whether a reference is to one of Cluster API's objects, or of a provider of it.
func isClusterAPIs(ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && (gv.Group == clusterv1.GroupVersion.Group || strings.HasSuffix(gv.Group, "."+clusterv1.GroupVersion.Group))
}

// sameObject reports whether two references name the same object, whatever its version and UID.
func sameObject(a, b metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(b.APIVersion)
	return err == nil && isOf(a, gv.Group, b.Kind) && a.Name == b.Name
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}
