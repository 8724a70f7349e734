package certs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// Secrets is what the secrets of a cluster were found to be. It holds nothing of their content.
type Secrets struct {
	// Missing are the purposes of those that have no secret and can be made, sorted: ca, etcd, proxy, sa. Those of an
	// external etcd are among them only where the user copies them to the machines as files.
	Missing []string
	// Given are the purposes of those secrets that only the user can give and has not
	// given, sorted. They are those of an external etcd: apiserver-etcd-client, and etcd.
	Given []string
	// Broken says what is wrong with what was given, each by its secret and key, or by its file, and what is valid; empty: nothing.
	Broken string
	// Keyless are the purposes of the authorities whose key is kept elsewhere, sorted. A first
	// machine can start with them; the bootstrap provider lets no other join.
	Keyless []string
	// Kubeconfig is the state of the secret with which the cluster is reached.
	Kubeconfig Kubeconfig
	// Disowned are the purposes of the secrets that the control plane should control and does not, sorted.
	Disowned []string
	// Certificates are those that the secrets hold, but for the kubeconfig's.
	Certificates []Dated
}

// Read reads the secrets that a cluster with this configuration needs, each once, and, of the files that the user copies to the machines,
// the certificates and keys. owner is the control plane as it should be named on those that it controls. Errors are those of reading; what
// is wrong with a secret or a file is among the facts.
func Read(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, owner metav1.OwnerReference,
	files ...bootstrapv1.File,
) (Secrets, error) {
	var s Secrets
	copied, err := readFiles(ctx, c, cluster.Namespace, config, files)
	if err != nil {
		return Secrets{}, err
	}
	given := pki.Given{Names: apiServerNames(cluster, config), ExternalEtcd: config != nil && config.Etcd.External.IsDefined(),
		Now: time.Now()}
	wantedAll := secret.NewCertificatesForInitialControlPlane(config)
	purposes := []secret.Purpose{secret.Kubeconfig}
	for _, wanted := range wantedAll {
		purposes = append(purposes, wanted.Purpose)
	}
	secrets, err := getAll(ctx, c, cluster, purposes)
	if err != nil {
		return Secrets{}, err
	}
	for _, wanted := range wantedAll {
		found := secrets[wanted.Purpose]
		if found == nil {
			_, isCopied := copied[roles[wanted.Purpose]]
			s.noteAbsent(wanted, isCopied)
			continue
		}
		s.noteOwner(found, string(wanted.Purpose), cluster, owner)
		s.noteKeyless(found, wanted)
		given.Pairs = append(given.Pairs, pairOf(found, wanted))
	}
	given.Pairs = append(given.Pairs, sorted(copied)...)
	s.noteKubeconfig(secrets[secret.Kubeconfig], cluster, owner)
	for _, purposes := range [][]string{s.Missing, s.Given, s.Keyless, s.Disowned} {
		slices.Sort(purposes)
	}
	s.Broken = brokenOf(given)
	s.Certificates = dated(cluster, secrets)
	return s, nil
}

// Basis identifies what Read judges by, beside the secrets themselves: while it is the same, so is what Read says of the same secrets.
func Basis(
	cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, owner metav1.OwnerReference, files ...bootstrapv1.File,
) string {
	basis := struct {
		Cluster       types.UID
		ControlPlane  clusterv1.ContractVersionedObjectReference
		Owner         metav1.OwnerReference
		Configuration *bootstrapv1.ClusterConfiguration
		Files         []bootstrapv1.File
		Names         []string
	}{Cluster: cluster.UID, ControlPlane: cluster.Spec.ControlPlaneRef, Owner: owner, Configuration: config, Files: files}
	if len(files) > 0 { // the certificates of API servers are nowhere else
		basis.Names = apiServerNames(cluster, config)
	}
	digest := sha256.New()
	_ = json.NewEncoder(digest).Encode(basis) // of such types it does not fail
	return string(digest.Sum(nil))
}

// brokenOf says what is wrong with what was given; empty: nothing is.
func brokenOf(given pki.Given) string {
	var broken []string
	for _, f := range pki.Check(given) {
		broken = append(broken, f.String())
	}
	return strings.Join(broken, "; ")
}

// pairOf is what a secret holds.
func pairOf(s *corev1.Secret, wanted *secret.Certificate) pki.Pair {
	at := func(name string) pki.Datum {
		return pki.Datum{Where: fmt.Sprintf("secret %s/%s: %s", s.Namespace, s.Name, name), PEM: s.Data[name]}
	}
	return pki.Pair{Role: roles[wanted.Purpose], Cert: at(secret.TLSCrtDataName), Key: at(secret.TLSKeyDataName)}
}

// noteKeyless notes an authority of ours whose key is kept elsewhere.
func (s *Secrets) noteKeyless(found *corev1.Secret, wanted *secret.Certificate) {
	signs := !wanted.External && wanted.Purpose != secret.ServiceAccount
	if signs && len(found.Data[secret.TLSCrtDataName]) > 0 && len(found.Data[secret.TLSKeyDataName]) == 0 {
		s.Keyless = append(s.Keyless, string(wanted.Purpose))
	}
}

// noteAbsent notes that there is no secret of a kind: the user can give it, or it can be made, from the user's files or new.
func (s *Secrets) noteAbsent(wanted *secret.Certificate, isCopied bool) {
	if wanted.External && !isCopied {
		s.Given = append(s.Given, string(wanted.Purpose))
	} else {
		s.Missing = append(s.Missing, string(wanted.Purpose))
	}
}

// noteKubeconfig notes the state of the secret with which the cluster is reached; nil: there is none. Keyless is known by then.
func (s *Secrets) noteKubeconfig(found *corev1.Secret, cluster *clusterv1.Cluster, owner metav1.OwnerReference) {
	if found == nil {
		s.Kubeconfig = Kubeconfig{Absent: true}
		return
	}
	s.Kubeconfig = kubeconfigState(found, cluster, slices.Contains(s.Keyless, string(secret.ClusterCA)))
	s.noteOwner(found, string(secret.Kubeconfig), cluster, owner)
}

// noteOwner notes a secret that should be controlled by owner, exactly as that is written today.
func (s *Secrets) noteOwner(found *corev1.Secret, purpose string, cluster *clusterv1.Cluster, owner metav1.OwnerReference) {
	if !sameOwners(ownersOf(found, cluster, owner), found.OwnerReferences) {
		s.Disowned = append(s.Disowned, purpose)
	}
}
