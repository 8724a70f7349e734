package certs

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

const (
	// etcdClientLife is how long a client certificate for etcd is good. It lives in memory only.
	etcdClientLife = 24 * time.Hour
	// etcdClientRenewal is how long before its end it is replaced; a member's clock may be this far ahead.
	etcdClientRenewal = 12 * time.Hour
	// skew is how far a member's clock may lie behind ours before it finds a fresh certificate not yet valid.
	skew = time.Hour
	// secretsBelieved is how long the authority is believed before its secret is read again.
	secretsBelieved = 10 * time.Minute
)

// EtcdClients makes client credentials for the etcd of each cluster, and keeps them. The zero
// value is ready for use, by several at the same time.
type EtcdClients struct {
	// Authority is the purpose of the secret with the authority of etcd: ManagedEtcd for an etcd cluster on machines of its own. Defaults
	// to secret.EtcdCA.
	Authority secret.Purpose

	mu   sync.Mutex
	kept map[client.ObjectKey]*etcdClient
}

// etcdClient is what is kept for one cluster.
type etcdClient struct {
	// of tells a cluster from a later one with the same name.
	of types.UID
	// ca and pair are what the credentials were made of; pair is empty where we signed the client certificate.
	ca, pair string
	config   *tls.Config
	read     time.Time
	renew    time.Time
}

// Config returns the credentials for the cluster's etcd: its authority as the only root, and a client
// certificate, which is signed by that authority, or with external etcd
// the one that the user gave. ServerName is for the caller to set. The same pointer
// is returned until the credentials are renewed; it must not be changed.
func (e *EtcdClients) Config(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (*tls.Config, error) {
	key, now := client.ObjectKeyFromObject(cluster), time.Now()
	old := e.of(key)
	if old.isCurrent(cluster, now) {
		return old.config, nil
	}
	fresh, err := newEtcdClient(ctx, c, cluster, cmp.Or(e.Authority, secret.EtcdCA), now)
	if err != nil {
		return nil, fmt.Errorf("making credentials for the etcd of cluster %s: %w", cluster.Name, err)
	}
	if old != nil && old.ca == fresh.ca && old.pair == fresh.pair && now.Before(old.renew) {
		// Nothing changed: connections made with the old ones stay.
		fresh.config, fresh.renew = old.config, old.renew
	}
	e.keep(key, fresh)
	return fresh.config, nil
}

// isCurrent reports whether credentials can be used for a cluster without reading its secrets again.
func (e *etcdClient) isCurrent(cluster *clusterv1.Cluster, now time.Time) bool {
	return e != nil && e.of == cluster.UID && now.Before(e.renew) && now.Before(e.read.Add(secretsBelieved))
}

// of returns what is kept for a cluster; nil: nothing. The lock is never held while secrets are read: one
// cluster whose secret is slow to read must not hold up the others.
func (e *EtcdClients) of(key client.ObjectKey) *etcdClient {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kept[key]
}

func (e *EtcdClients) keep(key client.ObjectKey, fresh *etcdClient) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept == nil {
		e.kept = map[client.ObjectKey]*etcdClient{}
	}
	e.kept[key] = fresh
}

// Forget drops what is kept for a cluster.
func (e *EtcdClients) Forget(key client.ObjectKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kept, key)
}

func newEtcdClient(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, purpose secret.Purpose, now time.Time,
) (*etcdClient, error) {
	ca, err := authorityOf(ctx, c, cluster, purpose)
	if err != nil {
		return nil, err
	}
	made := &etcdClient{of: cluster.UID, ca: string(ca.pem), read: now}
	roots, err := pki.Pool(ca.pem)
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: tls.crt %w", cluster.Namespace, secret.Name(cluster.Name, purpose), err)
	}
	var pair tls.Certificate
	if ca.key != nil {
		pair, err = signEtcdClient(ca, now)
	} else {
		pair, made.pair, err = givenEtcdClient(ctx, c, cluster)
	}
	if err != nil {
		return nil, err
	}
	made.renew = pair.Leaf.NotAfter.Add(-etcdClientRenewal)
	if ca.key == nil || made.renew.Before(now) {
		// Nothing is won by renewing: a given certificate comes from its secret,
		// and one signed by an authority that is about to end ends with it.
		made.renew = now.Add(secretsBelieved)
	}
	made.config = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return made, nil
}

// signEtcdClient makes a client certificate. etcd asks for nothing but the
// authority's signature and the usage.
func signEtcdClient(ca *authority, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a client key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "quorate"},
		NotBefore:    earlier(now.Add(-skew), ca.cert.NotBefore),
		NotAfter:     earlier(now.Add(etcdClientLife), ca.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing a client certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading a client certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// givenEtcdClient reads the pair that the user gave for an external etcd.
func givenEtcdClient(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (tls.Certificate, string, error) {
	name := cluster.Namespace + "/" + secret.Name(cluster.Name, secret.APIServerEtcdClient)
	found, err := get(ctx, c, cluster, secret.APIServerEtcdClient)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	if found == nil {
		return tls.Certificate{}, "", fmt.Errorf("secret %s does not exist", name)
	}
	cert := found.Data[secret.TLSCrtDataName]
	pair, err := pki.KeyPair(cert, found.Data[secret.TLSKeyDataName])
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("reading secret %s: %w", name, err)
	}
	return pair, string(cert), nil
}
