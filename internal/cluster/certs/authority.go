package certs

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// authority is one that can sign, as long as it has a key.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

// authorityOf reads the cluster's authority for the purpose. It has no key where its secret has none.
func authorityOf(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, purpose secret.Purpose) (*authority, error) {
	name := cluster.Namespace + "/" + secret.Name(cluster.Name, purpose)
	found, err := get(ctx, c, cluster, purpose)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("secret %s does not exist", name)
	}
	a := &authority{pem: found.Data[secret.TLSCrtDataName]}
	if a.cert, err = pki.Certificate(a.pem); err != nil {
		return nil, fmt.Errorf("reading %s of secret %s: %w", secret.TLSCrtDataName, name, err)
	}
	if key := found.Data[secret.TLSKeyDataName]; len(key) > 0 {
		if a.key, err = pki.PrivateKey(key); err != nil {
			return nil, fmt.Errorf("reading %s of secret %s: %w", secret.TLSKeyDataName, name, err)
		}
	}
	return a, nil
}
