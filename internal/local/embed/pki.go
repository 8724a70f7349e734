package embed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// How long certificates live. One that a start finds with less than renewBefore left is issued again; an authority that old
// means a new environment.
const (
	authorityLife = 20 * 365 * 24 * time.Hour
	leafLife      = 5 * 365 * 24 * time.Hour
	renewBefore   = 365 * 24 * time.Hour
)

// Identities of clients of the API server.
const (
	adminUser       = "quorate:admin"
	adminGroup      = "system:masters"
	controllersUser = "quorate:controllers"
	managerUser     = "quorate:manager"
	collectorUser   = "system:kube-controller-manager"
)

// leaf is a certificate that the management plane needs.
type leaf struct {
	file   string // without ending, relative to the folder
	user   string
	groups []string
	usage  []x509.ExtKeyUsage
	server bool // it is shown by a server on loopback
}

var (
	forServers = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	forClients = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	// etcd's gateway and peers use one certificate to serve and to call.
	forBoth = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

// Names of files in the folder pki, without ending.
const (
	clusterAuthority = "ca"
	etcdAuthority    = "etcd-ca"
	accountKey       = "service-accounts"
)

// leaves are the certificates that each authority issues.
var leaves = map[string][]leaf{
	clusterAuthority: {
		{file: "apiserver", user: "kube-apiserver", usage: forServers, server: true},
		{file: "webhooks", user: "quorate-webhooks", usage: forServers, server: true},
		{file: "extension", user: "quorate-extension", usage: forServers, server: true},
		{file: "admin", user: adminUser, groups: []string{adminGroup}, usage: forClients},
		{file: "controllers", user: controllersUser, usage: forClients},
		{file: "manager", user: managerUser, usage: forClients},
		{file: "collector", user: collectorUser, usage: forClients},
	},
	etcdAuthority: {
		{file: "etcd-server", user: "etcd", usage: forBoth, server: true},
		{file: "etcd-peer", user: "etcd", usage: forBoth, server: true},
		{file: "etcd-client", user: "kube-apiserver", usage: forClients},
	},
}

// ensurePKI makes the keys and certificates that are missing or about to expire. An authority that is there is never replaced.
func ensurePKI(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder for keys: %w", err)
	}
	for name, issued := range leaves {
		ca, err := ensureAuthority(dir, name, now)
		if err != nil {
			return err
		}
		for _, l := range issued {
			if err := ca.ensure(dir, l, now); err != nil {
				return fmt.Errorf("issuing the certificate %s: %w", l.file, err)
			}
		}
	}
	return ensureAccountKey(dir)
}

// ensureAccountKey makes the pair of keys for the tokens of service accounts, if it is missing.
func ensureAccountKey(dir string) error {
	key := filepath.Join(dir, accountKey+".key")
	if _, err := os.Stat(key); err == nil {
		return nil
	}
	fresh, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(fresh.Public())
	if err != nil {
		return fmt.Errorf("encoding the key for service accounts: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, accountKey+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		0o600); err != nil {
		return err
	}
	// The private key last: it is what says that both are there.
	return writeKey(key, fresh)
}

// authority is a certificate authority with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func ensureAuthority(dir, name string, now time.Time) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if _, err := os.Stat(certFile); err == nil {
		return readAuthority(certFile, keyFile)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "quorate-" + name}, now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority %s: %w", name, err)
	}
	// The certificate last: it is what says that both are there.
	if err := writeKey(keyFile, key); err != nil {
		return nil, err
	}
	if err := writeCert(certFile, der); err != nil {
		return nil, err
	}
	return readAuthority(certFile, keyFile)
}

func readAuthority(certFile, keyFile string) (*authority, error) {
	cert, err := readCert(certFile)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", keyFile)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", keyFile, err)
	}
	return &authority{cert: cert, key: key}, nil
}

// ensure issues a certificate unless a good one is there.
func (a *authority) ensure(dir string, l leaf, now time.Time) error {
	certFile, keyFile := filepath.Join(dir, l.file+".crt"), filepath.Join(dir, l.file+".key")
	if _, err := os.Stat(keyFile); err == nil && a.good(certFile, l, now) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := a.sign(l, key, now)
	if err != nil {
		return err
	}
	// A crash in between leaves a pair that does not match; without its certificate the next start issues it again.
	if err := os.Remove(certFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the old certificate: %w", err)
	}
	if err := writeKey(keyFile, key); err != nil {
		return err
	}
	return writeCert(certFile, der)
}

// sign issues the certificate of a key, in DER.
func (a *authority) sign(l leaf, key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	template, err := newTemplate(pkix.Name{CommonName: l.user, Organization: l.groups}, now, leafLife)
	if err != nil {
		return nil, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, l.usage
	if l.server {
		template.IPAddresses, template.DNSNames = []net.IP{loopback.AsSlice()}, []string{"localhost"}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return der, nil
}

// good reports whether a certificate is there, is ours, says what it should, and lives long enough.
func (a *authority) good(file string, l leaf, now time.Time) bool {
	cert, err := readCert(file)
	return err == nil && cert.CheckSignatureFrom(a.cert) == nil && cert.NotAfter.After(now.Add(renewBefore)) &&
		cert.Subject.CommonName == l.user && slices.Equal(cert.Subject.Organization, l.groups) &&
		slices.Equal(cert.ExtKeyUsage, l.usage)
}

func newTemplate(subject pkix.Name, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	// An hour back, for clocks that are set right later.
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life)}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return key, nil
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	return atomicfile.Write(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func writeCert(file string, der []byte) error {
	return atomicfile.Write(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func readCert(file string) (*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return cert, nil
}
