package certs

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TakeOver makes owner the controller of those of the cluster's secrets that were made before there
// was a control plane. These are authorities and a kubeconfig that belong to a machine's bootstrap configuration, in
// its place, since they must not go with that machine. The other is the kubeconfig that Cluster API made for
// the Cluster, since nothing renews it any more. What users gave is left alone, and no data are changed.
func TakeOver(
	ctx context.Context, from client.Reader, c client.Client, cluster *clusterv1.Cluster, config *bootstrapv1.KubeadmConfig,
	owner metav1.OwnerReference,
) error {
	for _, purpose := range []secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.ServiceAccount, secret.Kubeconfig} {
		found, err := get(ctx, from, cluster, purpose)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		owners, passes := heirs(found, purpose, config, owner)
		if !passes {
			continue
		}
		after := found.DeepCopy()
		after.OwnerReferences = owners
		if err := c.Patch(ctx, after, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("making %s %s the owner of secret %s/%s: %w", owner.Kind, owner.Name, found.Namespace, found.Name, err)
		}
	}
	return nil
}

// heirs returns the owners that a secret must have, and whether it passes to the new one.
func heirs(
	s *corev1.Secret, purpose secret.Purpose, config *bootstrapv1.KubeadmConfig, owner metav1.OwnerReference,
) ([]metav1.OwnerReference, bool) {
	isConfig := func(ref metav1.OwnerReference) bool {
		return isOf(ref, bootstrapv1.GroupVersion.Group, "KubeadmConfig") && ref.Name == config.Name
	}
	isCluster := func(ref metav1.OwnerReference) bool { return isOf(ref, clusterv1.GroupVersion.Group, "Cluster") }
	ofConfig := slices.ContainsFunc(s.OwnerReferences, isConfig)
	ofCluster := purpose == secret.Kubeconfig && s.Type == clusterv1.ClusterSecretType && slices.ContainsFunc(s.OwnerReferences, isCluster)
	rest := slices.DeleteFunc(slices.Clone(s.OwnerReferences), isConfig)
	isOtherController := func(ref metav1.OwnerReference) bool { return ptr.Deref(ref.Controller, false) && ref.UID != owner.UID }
	if slices.ContainsFunc(rest, isOtherController) || !ofConfig && !ofCluster {
		return nil, false
	}
	owners := util.EnsureOwnerRef(rest, owner)
	return owners, !slices.EqualFunc(owners, s.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
}

// isOf reports whether a reference is to an object of that kind, of whatever version.
func isOf(ref metav1.OwnerReference, group, kind string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == group && ref.Kind == kind
}
