package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/cluster/pki"
)

// Kubeconfig is the state of the secret with which a cluster is reached.
type Kubeconfig struct {
	Exists bool
	// Absent: there is no such secret, not even one of ours that cannot be read.
	Absent bool
	// Foreign: somebody else made it; it is left alone.
	Foreign bool
	// Expires is the end of the client certificate in it; zero when not known.
	Expires time.Time
}

// kubeconfigState is the state of the cluster's kubeconfig secret. It is foreign when it is not the
// cluster's own: a user made it, and keeps it. One of ours that cannot be read does not
// exist: writing it again repairs it. Without the authority's key Quorate cannot renew it.
func kubeconfigState(s *corev1.Secret, cluster *clusterv1.Cluster, keyless bool) Kubeconfig {
	expires, err := clientExpiry(s.Data[secret.KubeconfigDataName])
	foreign := isForeign(s, cluster) || keyless && err == nil
	return Kubeconfig{Exists: foreign || err == nil, Foreign: foreign, Expires: expires}
}

// isForeign reports whether the secret is neither controlled by the cluster's control plane nor waits to be.
func isForeign(s *corev1.Secret, cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.ControlPlaneRef
	owner := metav1.GetControllerOf(s)
	if owner != nil && isOf(*owner, ref.APIGroup, ref.Kind) && owner.Name == ref.Name {
		return false
	}
	return !isClusters(s, cluster)
}

// clientExpiry is the end of the first client certificate to end; zero where there is none,
// as with tokens.
func clientExpiry(data []byte) (time.Time, error) {
	config, err := loadComplete(data)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	var first time.Time
	for _, user := range config.AuthInfos {
		if len(user.ClientCertificateData) == 0 {
			continue
		}
		cert, err := pki.Certificate(user.ClientCertificateData)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the client certificate in a kubeconfig: %w", err)
		}
		if first.IsZero() || cert.NotAfter.Before(first) {
			first = cert.NotAfter
		}
	}
	return first, nil
}

// loadComplete reads a kubeconfig that must have a cluster and a user.
func loadComplete(data []byte) (*clientcmdapi.Config, error) {
	config, err := kubeconfig.Load(data)
	if err != nil {
		return nil, err
	}
	if len(config.Clusters) == 0 || len(config.AuthInfos) == 0 {
		return nil, errors.New("it has no cluster or no user")
	}
	return config, nil
}

// WriteKubeconfig makes the cluster's kubeconfig secret, controlled by owner, for the cluster's
// endpoint and with a fresh client certificate, which is good for a year. Where it is there and ours, its
// content is replaced, and its owner if that is another. A foreign one is left alone. It returns the state of the secret afterwards.
// Absent: there was none when it was last looked for, and one that has appeared since is an error.
func WriteKubeconfig(
	ctx context.Context, c client.Client, cluster *clusterv1.Cluster, owner metav1.OwnerReference, absent bool,
) (Kubeconfig, error) {
	var found *corev1.Secret
	if !absent {
		var err error
		if found, err = get(ctx, c, cluster, secret.Kubeconfig); err != nil {
			return Kubeconfig{}, err
		}
	}
	if found != nil && isForeign(found, cluster) {
		return kubeconfigState(found, cluster, false), nil
	}
	data, err := newKubeconfig(ctx, c, cluster)
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("making a kubeconfig for cluster %s: %w", cluster.Name, err)
	}
	if found == nil {
		found = capikubeconfig.GenerateSecretWithOwner(client.ObjectKeyFromObject(cluster), data, owner)
		err = c.Create(ctx, found)
	} else {
		if found.Data == nil {
			found.Data = map[string][]byte{}
		}
		found.Data[secret.KubeconfigDataName] = data
		found.OwnerReferences = ownersOf(found, cluster, owner)
		// The resource version is part of it: who wrote meanwhile is not overwritten.
		err = c.Update(ctx, found)
	}
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("writing secret %s/%s: %w", found.Namespace, found.Name, err)
	}
	return kubeconfigState(found, cluster, false), nil
}

func newKubeconfig(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) ([]byte, error) {
	if !cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return nil, fmt.Errorf("spec.controlPlaneEndpoint is %q, want host:port", cluster.Spec.ControlPlaneEndpoint.String())
	}
	ca, err := authorityOf(ctx, c, cluster, secret.ClusterCA)
	if err != nil {
		return nil, err
	}
	if ca.key == nil {
		return nil, fmt.Errorf("secret %s/%s lacks %s: the owner of that key must supply the kubeconfig, as secret %s",
			cluster.Namespace, secret.Name(cluster.Name, secret.ClusterCA), secret.TLSKeyDataName, secret.Name(cluster.Name, secret.Kubeconfig))
	}
	server := url.URL{Scheme: "https", Host: cluster.Spec.ControlPlaneEndpoint.String()}
	config, err := capikubeconfig.New(cluster.Name, server.String(), ca.cert, ca.key, capikubeconfig.KeyEncryptionAlgorithm(algorithm(ca.key)))
	if err != nil {
		return nil, fmt.Errorf("signing a client certificate: %w", err)
	}
	return clientcmd.Write(*config)
}

// algorithm is that of the authority's key, if somebody chose it: who did, wants it for what it signs. Beside kubeadm's default, RSA with
// 2048 bits, it is P-256, which is as strong, and made in no time.
func algorithm(key crypto.Signer) bootstrapv1.EncryptionAlgorithmType {
	switch public := key.Public().(type) {
	case *ecdsa.PublicKey:
		if public.Params().BitSize > 256 {
			return bootstrapv1.EncryptionAlgorithmECDSAP384
		}
		return bootstrapv1.EncryptionAlgorithmECDSAP256
	case *rsa.PublicKey:
		switch public.N.BitLen() {
		case 3072:
			return bootstrapv1.EncryptionAlgorithmRSA3072
		case 4096:
			return bootstrapv1.EncryptionAlgorithmRSA4096
		}
	}
	return bootstrapv1.EncryptionAlgorithmECDSAP256
}
