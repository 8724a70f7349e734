package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

// pkcs1 is a private RSA key as PKCS #1 has it.
type pkcs1 struct {
	Version             int
	N                   *big.Int
	E                   int
	D, P, Q, Dp, Dq, Qi *big.Int
}

// odd is an odd number of so many bits.
func odd(t *testing.T, bits int) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		t.Fatal(err)
	}
	n.SetBit(n, bits-1, 1)
	n.SetBit(n, bits-2, 1)
	return n.SetBit(n, 0, 1)
}

// rsaKey is a private key of so many bits that passes for one, though its primes are none: those would take long to find.
func rsaKey(t *testing.T, bits int) []byte {
	t.Helper()
	one := big.NewInt(1)
	for {
		p, q := odd(t, bits/2), odd(t, bits/2)
		if p.Cmp(q) < 0 {
			p, q = q, p
		}
		p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
		d, qi := new(big.Int).ModInverse(big.NewInt(65537), new(big.Int).Mul(p1, q1)), new(big.Int).ModInverse(q, p)
		if d == nil || qi == nil {
			continue
		}
		der, err := asn1.Marshal(pkcs1{0, new(big.Int).Mul(p, q), 65537, d, p, q, new(big.Int).Mod(d, p1), new(big.Int).Mod(d, q1), qi})
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certOf is a certificate for a public key, with so many names.
func certOf(t *testing.T, key any, names int) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		key = signer.Public()
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
	for i := range names {
		template.DNSNames = append(template.DNSNames, fmt.Sprintf("name-%d.a-long-domain.example.com", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestSizesAreBoundedBeforeParsing: what is too large is refused by its size, wherever it lies, whatever it is called, and in no time: the
// last of these took 20 s.
func TestSizesAreBoundedBeforeParsing(t *testing.T) {
	good, most := rsaKey(t, 2048), rsaKey(t, MostBits)
	long := certOf(t, &rsa.PublicKey{N: odd(t, 2*MostBits), E: 65537}, 0)
	huge := bytes.Repeat([]byte{0x30}, 300<<10)
	for _, test := range []struct {
		name      string
		text      []byte
		cert, key bool // accepted as
	}{
		{"nothing", nil, true, true},
		{"no PEM", []byte("ca"), true, true},
		{"a key of 2048 bits", block("RSA PRIVATE KEY", good), true, true},
		{"a key of 8192 bits", block("RSA PRIVATE KEY", most), true, true},
		{"a key of 16384 bits", block("RSA PRIVATE KEY", rsaKey(t, 2*MostBits)), false, false},
		{"a key after a small one", append(block("RSA PRIVATE KEY", good), block("PRIVATE KEY", huge)...), false, false},
		{"a key that is called a certificate", block("CERTIFICATE", huge[:20<<10]), true, false},
		{"a certificate of 300 KB", block("CERTIFICATE", huge), false, false},
		{"a certificate of 500 names", block("CERTIFICATE", certOf(t, nil, 500)), true, false},
		{"a certificate of a key of 16384 bits", block("CERTIFICATE", long), false, false},
		{"a public key of 300 KB", block("PUBLIC KEY", huge), false, false},
		{"a certificate after a key", append(block("EC PARAMETERS", []byte("x")), block("CERTIFICATE", certOf(t, nil, 500))...), true, false},
		{"2 MB", bytes.Repeat([]byte("x"), 2<<20), false, false},
		{"a key of 262144 bits", block("RSA PRIVATE KEY", append([]byte{}, bytes.Repeat([]byte{1}, 150<<10)...)), false, false},
	} {
		if err := Bounded(test.text); (err == nil) != test.cert || err != nil && !errors.As(err, new(*SizeError)) {
			t.Errorf("%s: %v, accepted as a certificate should be %t", test.name, err, test.cert)
		}
		if err := BoundedKey(test.text); (err == nil) != test.key || err != nil && !errors.As(err, new(*SizeError)) {
			t.Errorf("%s: %v, accepted as a key should be %t", test.name, err, test.key)
		}
	}
}

// TestLargeKeysAreFindings: what is given for a control plane and is too large is told, with its place.
func TestLargeKeysAreFindings(t *testing.T) {
	large := rsaKey(t, 65536)
	begun := time.Now()
	_, _ = x509.ParsePKCS1PrivateKey(large)
	unbounded := time.Since(begun)
	begun = time.Now()
	found := Check(Given{Now: time.Now(), Pairs: []Pair{
		{Role: ClusterCA, Cert: Datum{Where: "c", PEM: block("CERTIFICATE", certOf(t, nil, 1))},
			Key: Datum{Where: "k", PEM: block("RSA PRIVATE KEY", large)}},
		{Role: ServiceAccount, Cert: Datum{Where: "sc", PEM: block("PUBLIC KEY", large)},
			Key: Datum{Where: "sk", PEM: block("RSA PRIVATE KEY", large)}},
	}})
	t.Logf("%s instead of %s", time.Since(begun), unbounded)
	for _, where := range []string{"k", "sc", "sk"} {
		seen := false
		for _, f := range found {
			seen = seen || f.Where == where && strings.Contains(f.Wrong, "at most 8192 are read")
		}
		if !seen {
			t.Errorf("nothing is said of %s: %v", where, found)
		}
	}
}

// TestParsersAreBounded: each way to parse refuses what is too large, and takes what is not.
func TestParsersAreBounded(t *testing.T) {
	key, cert := block("RSA PRIVATE KEY", rsaKey(t, 2*MostBits)), block("CERTIFICATE", bytes.Repeat([]byte{0x30}, 300<<10))
	small := block("CERTIFICATE", certOf(t, nil, 500))
	for name, parse := range map[string]func() error{
		"Certificate": func() error { _, err := Certificate(cert); return err },
		"PrivateKey":  func() error { _, err := PrivateKey(key); return err },
		"KeyPair":     func() error { _, err := KeyPair(small, key); return err },
		"its cert":    func() error { _, err := KeyPair(cert, nil); return err },
		"Pool":        func() error { _, err := Pool(append(small, cert...)); return err },
	} {
		if err := parse(); !errors.As(err, new(*SizeError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c, err := Certificate(small); err != nil || len(c.DNSNames) != 500 {
		t.Errorf("%v", err)
	}
	if _, err := Pool(small); err != nil {
		t.Error(err)
	}
	if _, err := PrivateKey(block("RSA PRIVATE KEY", []byte("x"))); err == nil {
		t.Error("no key was taken for one")
	}
}
