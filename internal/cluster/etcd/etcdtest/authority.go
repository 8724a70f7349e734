// Package etcdtest runs real etcd members on loopback for tests, as processes that can be
// killed, frozen and cut off from one another. It knows how a member is started and asked; it does
// not know what a test wants of it.
package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs members' and clients' certificates.
type Authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority that is valid for an hour.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(tb, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Must(tb, err)
	cert, err := x509.ParseCertificate(der)
	Must(tb, err)
	return &Authority{tb: tb, cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign makes a pair for the name, as kubeadm does for a member: for both ends of a connection.
func (a *Authority) sign(name string, from time.Time) (cert, key []byte) {
	a.tb.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(a.tb, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: from, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, own.Public(), a.key)
	Must(a.tb, err)
	keyDER, err := x509.MarshalECPrivateKey(own)
	Must(a.tb, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// Server makes credentials for a member that a test plays itself.
func (a *Authority) Server(name string) *tls.Config {
	a.tb.Helper()
	cert, key := a.sign(name, time.Now().Add(-time.Hour))
	pair, err := tls.X509KeyPair(cert, key)
	Must(a.tb, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
}

// Client makes credentials as a controller would have them.
func (a *Authority) Client() *tls.Config {
	a.tb.Helper()
	return a.ClientFrom(time.Now().Add(-time.Hour))
}

// ClientFrom makes the same with a certificate that is valid from that moment on.
func (a *Authority) ClientFrom(from time.Time) *tls.Config {
	a.tb.Helper()
	cert, key := a.sign("client", from)
	pair, err := tls.X509KeyPair(cert, key)
	Must(a.tb, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
}
