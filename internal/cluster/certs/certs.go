// Package certs keeps a cluster's authorities and the credentials that are signed by
// them, in the secrets that Cluster API's contract names. It knows which secrets a cluster
// needs, who may write them, and when a certificate is renewed. It does not know whether now is the
// time for it: a missing authority of a cluster that runs is found here and refused elsewhere.
package certs

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicerts "sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// Made are the secrets that Generate made.
type Made struct {
	Purposes     []string
	Certificates []Dated
}

// Generate makes those authorities, of these purposes, that have no secret, controlled by owner. It takes those of the files that the user
// copies to the machines, or makes new ones, with the key algorithm and validity that the configuration asks for. It returns what it
// made: a secret that is there, or appears in the meantime, is never changed.
func Generate(
	ctx context.Context, c client.Client, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, purposes []string,
	owner metav1.OwnerReference, files ...bootstrapv1.File,
) (Made, error) {
	copied, err := readFiles(ctx, c, cluster.Namespace, config, files)
	if err != nil {
		return Made{}, err
	}
	made, secrets := Made{}, map[secret.Purpose]*corev1.Secret{}
	for _, wanted := range secret.NewCertificatesForInitialControlPlane(config) {
		given, isCopied := copied[roles[wanted.Purpose]]
		if !slices.Contains(purposes, string(wanted.Purpose)) || wanted.External && !isCopied {
			continue
		}
		if err := fill(wanted, given, isCopied); err != nil {
			return Made{}, fmt.Errorf("generating the authority %q of cluster %s: %w", wanted.Purpose, cluster.Name, err)
		}
		s := wanted.AsSecret(client.ObjectKeyFromObject(cluster), owner)
		isNew, err := createOnce(ctx, c, s)
		if err != nil {
			return Made{}, err
		}
		if isNew {
			made.Purposes, secrets[wanted.Purpose] = append(made.Purposes, string(wanted.Purpose)), s
		}
	}
	made.Certificates = dated(cluster, secrets)
	return made, nil
}

// fill makes a certificate of the user's files, or a new one where there are none.
func fill(wanted *secret.Certificate, given pki.Pair, isCopied bool) error {
	switch {
	case !isCopied:
		return wanted.Generate()
	case len(given.Cert.PEM) == 0:
		return fmt.Errorf("%s cannot be read", given.Cert.Where)
	case len(given.Key.PEM) == 0 && (!wanted.External || wanted.Purpose != secret.EtcdCA):
		return fmt.Errorf("%s cannot be read", given.Key.Where)
	}
	wanted.KeyPair = &capicerts.KeyPair{Cert: given.Cert.PEM, Key: given.Key.PEM}
	wanted.Generated = true // it gets an owner
	return nil
}

// getAll returns the cluster's secrets for these purposes, which are asked for at the same time. One that there is not is not among them.
func getAll(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, purposes []secret.Purpose,
) (map[secret.Purpose]*corev1.Secret, error) {
	found := make([]*corev1.Secret, len(purposes))
	all, ctx := errgroup.WithContext(ctx)
	for i, purpose := range purposes {
		all.Go(func() (err error) {
			found[i], err = get(ctx, c, cluster, purpose)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	of := map[secret.Purpose]*corev1.Secret{}
	for i, purpose := range purposes {
		if found[i] != nil {
			of[purpose] = found[i]
		}
	}
	return of, nil
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
