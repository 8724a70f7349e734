package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicerts "sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secrets is what the secrets of a cluster were found to be. It holds nothing of their content.
type Secrets struct {
	// Missing are the purposes of the authorities that have no secret and can be
	// generated, sorted: ca, etcd, proxy, sa. With external etcd, etcd is not among them.
	Missing []string
	// Given are the purposes of those secrets that only the user can give and has not
	// given, sorted. They are those of an external etcd: apiserver-etcd-client, and etcd.
	Given []string
	// Broken says what is wrong with secrets that are there, each by its name; empty: nothing.
	Broken string
	// Keyless are the purposes of the authorities whose key is kept elsewhere, sorted. A first
	// machine can start with them; the bootstrap provider lets no other join.
	Keyless []string
	// Kubeconfig is the state of the secret with which the cluster is reached.
	Kubeconfig Kubeconfig
	// Disowned are the purposes of the secrets that the control plane should control and does not, sorted.
	Disowned []string
}

// Read reads the secrets that a cluster with this configuration needs, each once. owner is
// the control plane as it should be named on those that it controls. Errors are those of reading; what is
// wrong with a secret is among the facts.
func Read(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, owner metav1.OwnerReference) (Secrets, error) {
	var s Secrets
	var broken []string
	for _, wanted := range secret.NewCertificatesForInitialControlPlane(config) {
		purpose := string(wanted.Purpose)
		found, err := get(ctx, c, cluster, wanted.Purpose)
		if err != nil {
			return Secrets{}, err
		}
		if found == nil {
			s.noteAbsent(wanted)
			continue
		}
		s.noteOwner(found, purpose, cluster, owner)
		if text := flaw(found, wanted); text != "" {
			broken = append(broken, text)
		} else if isKeyless(found, wanted) {
			s.Keyless = append(s.Keyless, purpose)
		}
	}
	if err := s.readKubeconfig(ctx, c, cluster, owner); err != nil {
		return Secrets{}, err
	}
	for _, purposes := range [][]string{s.Missing, s.Given, s.Keyless, s.Disowned, broken} {
		slices.Sort(purposes)
	}
	s.Broken = strings.Join(broken, "; ")
	return s, nil
}

// isKeyless reports whether the key of an authority of ours is kept elsewhere.
func isKeyless(s *corev1.Secret, wanted *secret.Certificate) bool {
	return !wanted.External && len(s.Data[secret.TLSKeyDataName]) == 0
}

// noteAbsent notes that there is no secret of a kind: the user can give it, or it can be generated.
func (s *Secrets) noteAbsent(wanted *secret.Certificate) {
	if wanted.External {
		s.Given = append(s.Given, string(wanted.Purpose))
	} else {
		s.Missing = append(s.Missing, string(wanted.Purpose))
	}
}

// readKubeconfig notes the state of the secret with which the cluster is reached; Keyless is known by then.
func (s *Secrets) readKubeconfig(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, owner metav1.OwnerReference) error {
	found, err := get(ctx, c, cluster, secret.Kubeconfig)
	if err != nil || found == nil {
		return err
	}
	s.Kubeconfig = kubeconfigState(found, cluster, slices.Contains(s.Keyless, string(secret.ClusterCA)))
	s.noteOwner(found, string(secret.Kubeconfig), cluster, owner)
	return nil
}

// noteOwner notes a secret that should be controlled by owner, exactly as that is written today.
func (s *Secrets) noteOwner(found *corev1.Secret, purpose string, cluster *clusterv1.Cluster, owner metav1.OwnerReference) {
	if !sameOwners(ownersOf(found, cluster, owner), found.OwnerReferences) {
		s.Disowned = append(s.Disowned, purpose)
	}
}

// flaw says what makes a secret useless; empty: nothing does.
//
// The key of an authority may be kept elsewhere, as with kubeadm's external CA mode. The key for service accounts may not:
// without it every machine would make one of its own.
func flaw(s *corev1.Secret, wanted *secret.Certificate) string {
	cert, key := s.Data[secret.TLSCrtDataName], s.Data[secret.TLSKeyDataName]
	needed := neededData(wanted)
	lacks := slices.DeleteFunc(slices.Clone(needed), func(name string) bool { return len(s.Data[name]) > 0 })
	name := s.Namespace + "/" + s.Name
	switch {
	case len(lacks) > 0:
		return fmt.Sprintf("secret %s lacks %s: it must hold PEM data under %s and %s",
			name, strings.Join(lacks, " and "), secret.TLSCrtDataName, secret.TLSKeyDataName)
	case wanted.Purpose == secret.ServiceAccount:
		return "" // no certificate, but a public key
	}
	if _, err := capicerts.DecodeCertPEM(cert); err != nil {
		return fmt.Sprintf("secret %s: %s holds no certificate", name, secret.TLSCrtDataName)
	}
	isUsed := !wanted.External || slices.Contains(needed, secret.TLSKeyDataName)
	if isUsed && len(key) > 0 {
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			return fmt.Sprintf("secret %s: %s and %s are no pair of a certificate and its key", name, secret.TLSCrtDataName, secret.TLSKeyDataName)
		}
	}
	return ""
}

// neededData are the keys of a secret under which there must be data.
func neededData(wanted *secret.Certificate) []string {
	if wanted.Purpose == secret.ServiceAccount || wanted.Purpose == secret.APIServerEtcdClient {
		return []string{secret.TLSCrtDataName, secret.TLSKeyDataName}
	}
	return []string{secret.TLSCrtDataName}
}
