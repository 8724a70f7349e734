// Package certs keeps a cluster's authorities and the credentials that are signed by
// them, in the secrets that Cluster API's contract names. It knows which secrets a cluster
// needs, who may write them, and when a certificate is renewed. It does not know whether now is the
// time for it: a missing authority of a cluster that runs is found here and refused elsewhere.
package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Generate makes the authorities that have no secret, with the key algorithm and validity that the
// configuration asks for, controlled by owner. A secret that is there is never
// changed, also when it appears in the meantime.
func Generate(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, owner metav1.OwnerReference) error {
	for _, wanted := range secret.NewCertificatesForInitialControlPlane(config) {
		if wanted.External {
			continue
		}
		found, err := get(ctx, c, cluster, wanted.Purpose)
		if err != nil {
			return err
		}
		if found != nil {
			continue
		}
		if err := wanted.Generate(); err != nil {
			return fmt.Errorf("generating the authority %q of cluster %s: %w", wanted.Purpose, cluster.Name, err)
		}
		made := wanted.AsSecret(client.ObjectKeyFromObject(cluster), owner)
		if err := c.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating secret %s/%s: %w", made.Namespace, made.Name, err)
		}
	}
	return nil
}

// get returns the cluster's secret for the purpose; nil: there is none.
func get(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, purpose secret.Purpose) (*corev1.Secret, error) {
	found, err := secret.Get(ctx, c, client.ObjectKeyFromObject(cluster), purpose)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s/%s: %w", cluster.Namespace, secret.Name(cluster.Name, purpose), err)
	}
	return found, nil
}
