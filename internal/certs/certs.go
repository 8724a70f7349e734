// Package certs keeps a cluster's authorities and the credentials that are signed by
// them, in the secrets that Cluster API's contract names. It knows which secrets a cluster
// needs, who may write them, and when a certificate is renewed. It does not know whether now is the
// time for it: a missing authority of a cluster that runs is found here and refused elsewhere.
package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Missing returns the purposes of the authorities that have no secret and can be
// generated, sorted: ca, etcd, proxy, sa. With external etcd, etcd is not among them. A secret that
// is there without a certificate or key is an error that names it.
func Missing(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration) ([]string, error) {
	return missing(ctx, c, cluster, config, false)
}

// MissingGiven returns the purposes of those secrets that only the user can give and has
// not given, sorted. They are those of an external etcd: apiserver-etcd-client, and etcd.
func MissingGiven(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration) ([]string, error) {
	return missing(ctx, c, cluster, config, true)
}

func missing(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, given bool) ([]string, error) {
	var out []string
	for _, wanted := range secret.NewCertificatesForInitialControlPlane(config) {
		if wanted.External != given {
			continue
		}
		switch found, err := get(ctx, c, cluster, wanted.Purpose); {
		case err != nil:
			return nil, err
		case found == nil:
			out = append(out, string(wanted.Purpose))
		default:
			if err := complete(found, wanted); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

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

// complete tells what the secret lacks. An external etcd's authority is not ours to sign with, and comes without its key.
func complete(s *corev1.Secret, wanted *secret.Certificate) error {
	var lacks []string
	if len(s.Data[secret.TLSCrtDataName]) == 0 {
		lacks = append(lacks, secret.TLSCrtDataName)
	}
	needsKey := !wanted.External || wanted.Purpose == secret.APIServerEtcdClient
	if needsKey && len(s.Data[secret.TLSKeyDataName]) == 0 {
		lacks = append(lacks, secret.TLSKeyDataName)
	}
	if len(lacks) > 0 {
		return fmt.Errorf("secret %s/%s lacks %s: it must hold PEM data under %s and %s",
			s.Namespace, s.Name, strings.Join(lacks, " and "), secret.TLSCrtDataName, secret.TLSKeyDataName)
	}
	return nil
}
