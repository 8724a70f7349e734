package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// made is a certificate and its key.
type made struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (m made) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.cert.Raw})
}

func (m made) keyPEM(t *testing.T) []byte { return keyPEM(t, m.key) }

func keyPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func publicPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// issue makes a certificate, signed by an authority, or by itself.
func issue(t *testing.T, by *made, change func(*x509.Certificate)) made {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "some " + serial.String()},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), BasicConstraintsValid: true,
	}
	change(template)
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made{cert, key}
}

func asAuthority(c *x509.Certificate) {
	c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
}

func asClient(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

// apiServerNames are those that the certificate of an API server must have.
var apiServerNames = []string{"kubernetes", "172.30.0.10", "10.96.0.1"}

func asAPIServer(c *x509.Certificate) {
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	c.DNSNames, c.IPAddresses = []string{"kubernetes"}, []net.IP{net.ParseIP("172.30.0.10"), net.ParseIP("10.96.0.1")}
}

// asSecret and asFile are pairs that lie there.
func asSecret(role Role, cert, key []byte) Pair {
	return Pair{Role: role, Cert: Datum{Where: "secret demo-" + string(role) + ": tls.crt", PEM: cert},
		Key: Datum{Where: "secret demo-" + string(role) + ": tls.key", PEM: key}}
}

func asFile(role Role, cert, key []byte) Pair {
	return Pair{Role: role, File: true, Cert: Datum{Where: "file " + string(role) + ".crt", PEM: cert},
		Key: Datum{Where: "file " + string(role) + ".key", PEM: key}}
}

// TestCheck: every way in which what was given is wrong, and what is not.
func TestCheck(t *testing.T) {
	ca, other := issue(t, nil, asAuthority), issue(t, nil, asAuthority)
	expired := issue(t, nil, func(c *x509.Certificate) { asAuthority(c); c.NotAfter = now.Add(-time.Minute) })
	early := issue(t, nil, func(c *x509.Certificate) { asAuthority(c); c.NotBefore = now.Add(time.Minute) })
	leaf := issue(t, nil, func(*x509.Certificate) {})
	noSigning := issue(t, nil, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageDigitalSignature })
	between := issue(t, &ca, asAuthority)
	client := issue(t, &ca, asClient)
	far := issue(t, &between, asClient)
	oldClient := issue(t, &ca, func(c *x509.Certificate) { asClient(c); c.NotAfter = now.Add(-time.Minute) })
	ofExpired := issue(t, &expired, asClient)
	anyUse := issue(t, &ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })
	server := issue(t, &ca, asAPIServer)
	strange := issue(t, &ca, func(c *x509.Certificate) { asAPIServer(c); c.DNSNames, c.IPAddresses = []string{"kubernetes"}, nil })
	ofEtcd := issue(t, &ca, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv6loopback}
	})
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	caKey, otherKey := ca.keyPEM(t), other.keyPEM(t)
	garbage := []byte("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
	join := func(all ...[]byte) (text []byte) {
		for _, one := range all {
			text = append(text, one...)
		}
		return text
	}
	params := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{1}})
	good := asSecret(ClusterCA, ca.certPEM(), caKey)
	etcd := asSecret(EtcdCA, ca.certPEM(), nil)
	pairOf := func(role Role, m made) Pair { return asSecret(role, m.certPEM(), m.keyPEM(t)) }
	fileOf := func(role Role, m made) Pair { return asFile(role, m.certPEM(), m.keyPEM(t)) }

	tests := []struct {
		name     string
		external bool
		pairs    []Pair
		want     string // lines of where and what
	}{
		{"nothing", false, nil, ""},
		{"an authority", false, []Pair{good}, ""},
		{"an authority whose key is elsewhere", false, []Pair{asSecret(ClusterCA, ca.certPEM(), nil)}, ""},
		{"no certificate", false, []Pair{asSecret(ClusterCA, nil, caKey)}, "secret demo-ca: tls.crt is missing"},
		{"garbage", false, []Pair{asSecret(ClusterCA, garbage, []byte("x"))},
			"secret demo-ca: tls.crt holds no certificate\nsecret demo-ca: tls.key holds no private key"},
		{"a key where the certificate should be", false, []Pair{asSecret(ClusterCA, caKey, caKey)},
			"secret demo-ca: tls.crt holds no certificate"},
		{"another key", false, []Pair{asSecret(FrontProxyCA, ca.certPEM(), otherKey)},
			"secret demo-front-proxy-ca: tls.key is not the key of secret demo-front-proxy-ca: tls.crt"},
		{"a key that the bootstrap provider does not find", false, []Pair{asSecret(ClusterCA, ca.certPEM(), join(params, caKey))},
			"secret demo-ca: tls.key holds no private key that kubeadm can read"},
		{"a key of another kind", false, []Pair{asSecret(ClusterCA, ca.certPEM(), keyPEM(t, edwards))},
			"secret demo-ca: tls.key holds no private key that kubeadm can read"},
		{"expired", false, []Pair{pairOf(EtcdCA, expired)}, "secret demo-etcd/ca: tls.crt expired at 2026-11-22T11:59:00Z"},
		{"too early", false, []Pair{pairOf(EtcdCA, early)}, "secret demo-etcd/ca: tls.crt is not valid before 2026-11-22T12:01:00Z"},
		{"no authority", false, []Pair{pairOf(ClusterCA, leaf)}, "secret demo-ca: tls.crt is not the certificate of an authority"},
		{"an authority that may not sign", false, []Pair{pairOf(ClusterCA, noSigning)},
			"secret demo-ca: tls.crt is that of an authority that may not sign certificates"},
		{"expired, and another key", false, []Pair{asSecret(ClusterCA, expired.certPEM(), caKey)},
			"secret demo-ca: tls.crt expired at 2026-11-22T11:59:00Z\nsecret demo-ca: tls.key is not the key of secret demo-ca: tls.crt"},

		{"keys for service accounts", false, []Pair{asSecret(ServiceAccount, publicPEM(t, ca.key), caKey)}, ""},
		{"several public keys", false, []Pair{asSecret(ServiceAccount, join(publicPEM(t, other.key), publicPEM(t, ca.key)), join(params, caKey))},
			""},
		{"a certificate as public key", false, []Pair{pairOf(ServiceAccount, ca)}, ""},
		{"another public key", false, []Pair{asSecret(ServiceAccount, publicPEM(t, other.key), caKey)},
			"secret demo-sa: tls.crt is not the public key of secret demo-sa: tls.key"},
		{"no public key", false, []Pair{asSecret(ServiceAccount, []byte("x"), caKey)}, "secret demo-sa: tls.crt holds no public key"},
		{"no key for service accounts", false, []Pair{asSecret(ServiceAccount, publicPEM(t, ca.key), nil)}, "secret demo-sa: tls.key is missing"},

		{"etcd elsewhere", true, []Pair{pairOf(APIServerEtcdClient, client), etcd}, ""},
		{"etcd elsewhere, its authority is not given yet", true, []Pair{pairOf(APIServerEtcdClient, client)}, ""},
		{"etcd elsewhere, whatever lies beside its authority", true, []Pair{asSecret(EtcdCA, ca.certPEM(), []byte("x"))}, ""},
		{"etcd elsewhere, its authority is replaced", true, []Pair{asSecret(EtcdCA, join(expired.certPEM(), ca.certPEM()), nil),
			pairOf(APIServerEtcdClient, client)}, ""},
		{"etcd elsewhere, an intermediate authority", true,
			[]Pair{etcd, asSecret(APIServerEtcdClient, join(far.certPEM(), between.certPEM()), far.keyPEM(t))}, ""},
		{"etcd elsewhere, for any use", true, []Pair{etcd, pairOf(APIServerEtcdClient, anyUse)}, ""},
		{"etcd elsewhere, its authority expired", true, []Pair{asSecret(EtcdCA, expired.certPEM(), nil)},
			"secret demo-etcd/ca: tls.crt expired at 2026-11-22T11:59:00Z"},
		{"etcd elsewhere, another authority", true, []Pair{asSecret(EtcdCA, other.certPEM(), nil), pairOf(APIServerEtcdClient, client)},
			"secret demo-apiserver-etcd-client: tls.crt is signed by another authority than secret demo-etcd/ca: tls.crt"},
		{"etcd elsewhere, the authority that signed has expired", true, []Pair{asSecret(EtcdCA, join(expired.certPEM(), ca.certPEM()), nil),
			pairOf(APIServerEtcdClient, ofExpired)},
			"secret demo-apiserver-etcd-client: tls.crt cannot be verified with secret demo-etcd/ca: tls.crt: x509: certificate has expired or is " +
				"not yet valid"},
		{"etcd elsewhere, an expired client", true, []Pair{etcd, pairOf(APIServerEtcdClient, oldClient)},
			"secret demo-apiserver-etcd-client: tls.crt expired at 2026-11-22T11:59:00Z"},
		{"etcd elsewhere, a server's certificate", true, []Pair{etcd, pairOf(APIServerEtcdClient, server)},
			"secret demo-apiserver-etcd-client: tls.crt may not be used by a client"},
		{"etcd elsewhere, another key", true, []Pair{etcd, asSecret(APIServerEtcdClient, client.certPEM(), otherKey)},
			"secret demo-apiserver-etcd-client: tls.key is not the key of secret demo-apiserver-etcd-client: tls.crt"},
		{"etcd elsewhere, the client has no key", true, []Pair{etcd, asSecret(APIServerEtcdClient, client.certPEM(), nil)},
			"secret demo-apiserver-etcd-client: tls.key is missing"},

		{"files", false, []Pair{fileOf(ClusterCA, ca), fileOf(APIServer, server)}, ""},
		{"files, and the same in a secret", false, []Pair{good, fileOf(ClusterCA, ca)}, ""},
		{"the key alone as a file", false, []Pair{asSecret(ClusterCA, ca.certPEM(), nil), asFile(ClusterCA, nil, caKey)}, ""},
		{"another key alone as a file", false, []Pair{good, asFile(ClusterCA, nil, otherKey)},
			"file ca.key is not the key of secret demo-ca: tls.crt"},
		{"a certificate alone as a file", false, []Pair{asFile(ClusterCA, ca.certPEM(), nil)}, "file ca.key is missing"},
		{"a file of another authority", false, []Pair{good, fileOf(ClusterCA, other)},
			"file ca.crt is another authority than secret demo-ca: tls.crt"},
		{"a file with another key for service accounts", false, []Pair{asSecret(ServiceAccount, publicPEM(t, ca.key), caKey),
			asFile(ServiceAccount, publicPEM(t, other.key), otherKey)},
			"file sa.key is another key than secret demo-sa: tls.key"},
		{"a file from a secret that is not there", false,
			[]Pair{{Role: ClusterCA, File: true, Cert: Datum{Where: "file ca.crt", Unreadable: "refers to nothing"},
				Key: Datum{Where: "file ca.key", PEM: caKey}}},
			"file ca.crt refers to nothing"},
		{"other names", false, []Pair{good, fileOf(APIServer, strange)}, "file apiserver.crt is not for 172.30.0.10, 10.96.0.1"},
		{"names of etcd", false, []Pair{asSecret(EtcdCA, ca.certPEM(), caKey), fileOf(EtcdServer, ofEtcd)},
			"file etcd/server.crt is not for 127.0.0.1"},
		{"a peer that may not be a client", false, []Pair{asSecret(EtcdCA, ca.certPEM(), caKey), fileOf(EtcdPeer, ofEtcd)},
			"file etcd/peer.crt may not be used by a client\nfile etcd/peer.crt is not for 127.0.0.1"},
		{"an authority that is not given", false, []Pair{fileOf(APIServer, server)},
			"file apiserver.crt is signed by an authority that is not given"},
		{"a certificate without its key", false, []Pair{good, asFile(APIServerKubeletClient, client.certPEM(), nil)},
			"file apiserver-kubelet-client.key is missing"},
		{"of an authority that cannot be read", false, []Pair{asSecret(FrontProxyCA, garbage, nil), fileOf(FrontProxyClient, client)},
			"secret demo-front-proxy-ca: tls.crt holds no certificate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, f := range Check(Given{Pairs: test.pairs, ExternalEtcd: test.external, Names: apiServerNames, Now: now}) {
				if f.Accepted == "" || strings.Contains(f.String(), "BEGIN") {
					t.Errorf("finding %q", f)
				}
				got = append(got, f.Where+" "+f.Wrong)
			}
			want := strings.Split(test.want, "\n")
			for i := range max(len(got), len(want)) {
				if test.want == "" && len(got) == 0 {
					break
				}
				if i >= len(got) || i >= len(want) || want[i] == "" || !strings.HasPrefix(got[i], want[i]) {
					t.Fatalf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), test.want)
				}
			}
		})
	}
}

// TestRoleOf: only kubeadm's own files are known.
func TestRoleOf(t *testing.T) {
	tests := []struct {
		file string
		role Role
		key  bool
	}{
		{"/etc/kubernetes/pki/ca.crt", ClusterCA, false},
		{"/etc/kubernetes/pki//ca.key", ClusterCA, true},
		{"/etc/kubernetes/pki/etcd/ca.crt", EtcdCA, false},
		{"/etc/kubernetes/pki/etcd/peer.key", EtcdPeer, true},
		{"/etc/kubernetes/pki/sa.pub", ServiceAccount, false},
		{"/etc/kubernetes/pki/sa.key", ServiceAccount, true},
		{"/etc/kubernetes/pki/sa.crt", "", false},
		{"/etc/kubernetes/pki/ca.pem", "", false},
		{"/etc/kubernetes/pki/mine.crt", "", false},
		{"/etc/kubernetes/pki-old/ca.crt", "", false},
		{"/etc/ssl/ca.crt", "", false},
	}
	for _, test := range tests {
		role, key, known := RoleOf("/etc/kubernetes/pki/", test.file)
		if known != (test.role != "") || known && (role != test.role || key != test.key) {
			t.Errorf("%s is %q, key %t, known %t", test.file, role, key, known)
		}
	}
}
