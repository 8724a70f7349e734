package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicerts "sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// ManagedEtcd is the purpose of the secret with the authority, and its key, of an etcd cluster on machines of its own. The secrets
// that a control plane reads, for secret.EtcdCA and secret.APIServerEtcdClient, hold no key of an authority.
const ManagedEtcd secret.Purpose = "managed-etcd"

const (
	// apiServerClient is whom the API servers' client certificate names.
	apiServerClient = "kube-apiserver-etcd-client"
	// apiServerClientLife is how long the API servers' client certificate is good.
	apiServerClientLife = 365 * 24 * time.Hour
	// apiServerClientRenewal is how long before its end it is replaced: a rollout of the control plane takes its time.
	apiServerClientRenewal = 120 * 24 * time.Hour
)

// A FlawError says why a secret cannot be used. Nothing of its content is in it.
type FlawError struct{ text string }

// Error implements error.
func (e *FlawError) Error() string { return e.text }

// EtcdAuthority signs the certificates of an etcd cluster on machines of its own.
type EtcdAuthority struct {
	authority
	keyPEM []byte
}

// PEM returns the authority's certificate and its key.
func (a *EtcdAuthority) PEM() (cert, key []byte) { return a.pem, a.keyPEM }

// ManagedEtcdAuthority reads the authority of the cluster's etcd; nil: it has no secret. One that cannot be used is a *FlawError.
func ManagedEtcdAuthority(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (*EtcdAuthority, error) {
	found, err := get(ctx, c, cluster, ManagedEtcd)
	if err != nil || found == nil {
		return nil, err
	}
	flawed := func(what string) error {
		return &FlawError{fmt.Sprintf("secret %s/%s: %s", found.Namespace, found.Name, what)}
	}
	a := &EtcdAuthority{keyPEM: found.Data[secret.TLSKeyDataName]}
	a.pem = found.Data[secret.TLSCrtDataName]
	pair, err := pki.KeyPair(a.pem, a.keyPEM)
	if errors.As(err, new(*pki.SizeError)) {
		return nil, flawed("tls.crt or tls.key " + err.Error())
	}
	if err != nil {
		return nil, flawed("tls.crt and tls.key are no pair of a certificate and its key")
	}
	key, isRSA := pair.PrivateKey.(*rsa.PrivateKey)
	a.cert, a.key = pair.Leaf, key
	switch {
	case !isRSA:
		return nil, flawed("tls.key is no RSA key, and etcdadm knows no other")
	case !a.cert.IsCA:
		return nil, flawed("tls.crt is not the certificate of an authority")
	case time.Now().After(a.cert.NotAfter):
		return nil, flawed("tls.crt expired at " + a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return a, nil
}

// GenerateManagedEtcd makes the authority of the cluster's etcd, controlled by owner, unless it has a secret already, also when that
// appears in the meantime.
func GenerateManagedEtcd(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, owner metav1.OwnerReference) error {
	made := &secret.Certificate{Purpose: ManagedEtcd}
	if err := made.Generate(); err != nil {
		return fmt.Errorf("generating the authority of the etcd of cluster %s: %w", cluster.Name, err)
	}
	_, err := createOnce(ctx, c, made.AsSecret(client.ObjectKeyFromObject(cluster), owner))
	return err
}

// createOnce creates a secret, and reports whether it was not there before. One that was there is left as it is.
func createOnce(ctx context.Context, c client.Client, s *corev1.Secret) (bool, error) {
	err := c.Create(ctx, s)
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return true, nil
}

// PublishManagedEtcd has the secrets there that a control plane reads: the authority's certificate without its key, and a client
// certificate for API servers, which is renewed long before its end. Users' own are left alone; another authority than that of the
// etcd cluster is a *FlawError.
func (a *EtcdAuthority) PublishManagedEtcd(
	ctx context.Context, from client.Reader, c client.Client, cluster *clusterv1.Cluster, owner metav1.OwnerReference,
) error {
	if err := a.publishAuthority(ctx, from, c, cluster, owner); err != nil {
		return err
	}
	found, err := get(ctx, from, cluster, secret.APIServerEtcdClient)
	if err != nil {
		return err
	}
	if found != nil && (!controlledBy(found, owner) && !a.made(found, cluster) || a.lasts(found.Data[secret.TLSCrtDataName])) {
		return nil
	}
	return a.publishClient(ctx, c, found, cluster, owner)
}

// publishClient makes a client certificate, in the secret that was found if there is one.
func (a *EtcdAuthority) publishClient(
	ctx context.Context, c client.Client, found *corev1.Secret, cluster *clusterv1.Cluster, owner metav1.OwnerReference,
) error {
	cert, key, err := a.Client(apiServerClient, apiServerClientLife)
	if err != nil {
		return err
	}
	made := a.asSecret(cluster, secret.APIServerEtcdClient, owner, cert, key)
	if found == nil {
		_, err := createOnce(ctx, c, made)
		return err
	}
	after := found.DeepCopy()
	after.Data = made.Data
	if err := c.Patch(ctx, after, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("renewing the certificate in secret %s/%s: %w", found.Namespace, found.Name, err)
	}
	return nil
}

func (a *EtcdAuthority) publishAuthority(
	ctx context.Context, from client.Reader, c client.Client, cluster *clusterv1.Cluster, owner metav1.OwnerReference,
) error {
	found, err := get(ctx, from, cluster, secret.EtcdCA)
	if err != nil {
		return err
	}
	if found == nil {
		_, err := createOnce(ctx, c, a.asSecret(cluster, secret.EtcdCA, owner, a.pem, nil))
		return err
	}
	if !bytes.Contains(found.Data[secret.TLSCrtDataName], bytes.TrimSpace(a.pem)) {
		return &FlawError{fmt.Sprintf("secret %s/%s holds another authority than that of the etcd cluster, in secret %s",
			found.Namespace, found.Name, secret.Name(cluster.Name, ManagedEtcd))}
	}
	return nil
}

func (a *EtcdAuthority) asSecret(
	cluster *clusterv1.Cluster, purpose secret.Purpose, owner metav1.OwnerReference, cert, key []byte,
) *corev1.Secret {
	made := (&secret.Certificate{Purpose: purpose, Generated: true, KeyPair: &capicerts.KeyPair{Cert: cert, Key: key}}).
		AsSecret(client.ObjectKeyFromObject(cluster), owner)
	if key == nil {
		delete(made.Data, secret.TLSKeyDataName)
	}
	return made
}

func controlledBy(s *corev1.Secret, owner metav1.OwnerReference) bool {
	controller := metav1.GetControllerOf(s)
	return controller != nil && sameObject(*controller, owner)
}

// made reports whether a secret is one of these that lost its owner, or was taken by a control plane: upstream's takes all secrets of
// the cluster that it reads.
func (a *EtcdAuthority) made(s *corev1.Secret, cluster *clusterv1.Cluster) bool {
	leaf, err := pki.Certificate(s.Data[secret.TLSCrtDataName])
	return isClusters(s, cluster) && err == nil && leaf != nil && leaf.Subject.CommonName == apiServerClient &&
		leaf.CheckSignatureFrom(a.cert) == nil
}

// lasts reports whether a client certificate is this authority's and need not be renewed yet.
func (a *EtcdAuthority) lasts(cert []byte) bool {
	leaf, err := pki.Certificate(cert)
	return err == nil && leaf != nil && leaf.CheckSignatureFrom(a.cert) == nil && time.Until(leaf.NotAfter) > apiServerClientRenewal
}

// Client makes a client certificate that etcd takes, with an RSA key, which etcdadm insists on.
func (a *EtcdAuthority) Client(commonName string, life time.Duration) (cert, key []byte, err error) {
	private, err := capicerts.NewPrivateKey()
	if err != nil {
		return nil, nil, fmt.Errorf("making a client key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		// The group is that of etcdadm's own client certificates.
		Subject:     pkix.Name{CommonName: commonName, Organization: []string{"system:masters"}},
		NotBefore:   earlier(now.Add(-skew), a.cert.NotBefore),
		NotAfter:    earlier(now.Add(life), a.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a client certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a client certificate: %w", err)
	}
	return capicerts.EncodeCertPEM(leaf), capicerts.EncodePrivateKeyPEM(private), nil
}
