package certs

import (
	"context"
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ForInit returns the authorities and keys that a machine gets which initialises a cluster. All of them must be there: none is made.
func ForInit(
	ctx context.Context, from client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration,
) (secret.Certificates, error) {
	all := secret.NewCertificatesForInitialControlPlane(config)
	if err := all.Lookup(ctx, reading{reader: from}, client.ObjectKeyFromObject(cluster)); err != nil {
		return nil, fmt.Errorf("reading the authorities of cluster %s: %w", cluster.Name, err)
	}
	if err := all.EnsureAllExist(); err != nil {
		return nil, fmt.Errorf("reading the authorities of cluster %s: %w", cluster.Name, err)
	}
	return all, nil
}

// reading is a client as far as the lookup needs one: it gets objects.
type reading struct {
	client.Client
	reader client.Reader
}

// Get implements client.Client.
func (r reading) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return r.reader.Get(ctx, key, into, o...)
}
