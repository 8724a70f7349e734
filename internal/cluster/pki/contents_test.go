package pki

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func blockOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// TestRead: each part of a text is read by itself, and nothing of a private key is in what is returned.
func TestRead(t *testing.T) {
	a := issue(t, nil, func(*x509.Certificate) {})
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	exchangeDER, err := x509.MarshalPKCS8PrivateKey(exchange)
	if err != nil {
		t.Fatal(err)
	}
	huge := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), MostBits+7), E: 65537}
	hugeDER, err := x509.MarshalPKIXPublicKey(huge)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text                   []byte
		certs, private, public int
		unread                 []string
	}{
		"certificate":      {a.certPEM(), 1, 0, 0, nil},
		"chain":            {slices.Concat(a.certPEM(), a.certPEM()), 2, 0, 0, nil},
		"key":              {a.keyPEM(t), 0, 1, 0, nil},
		"public key":       {publicPEM(t, a.key), 0, 0, 1, nil},
		"certificate, key": {slices.Concat([]byte("a comment\n"), a.certPEM(), a.keyPEM(t)), 1, 1, 0, nil},
		"parameters, key":  {slices.Concat(blockOf("EC PARAMETERS", []byte{6}), a.keyPEM(t)), 0, 1, 0, nil},
		"key of no signer": {blockOf("PRIVATE KEY", exchangeDER), 0, 1, 0, nil},
		"empty":            {nil, 0, 0, 0, []string{"holds no PEM block"}},
		"no PEM":           {[]byte("token: abc"), 0, 0, 0, []string{"holds no PEM block"}},
		"broken, then good": {slices.Concat(blockOf("CERTIFICATE", []byte("x")), a.certPEM()), 1, 0, 0,
			[]string{"holds a certificate that cannot be parsed"}},
		"broken key": {blockOf("RSA PRIVATE KEY", []byte("x")), 0, 0, 0, []string{"holds a private key that cannot be parsed"}},
		"key as certificate": {
			blockOf("CERTIFICATE", exchangeDER), 0, 0, 0, []string{"holds a certificate that cannot be parsed"},
		},
		"encrypted key": {blockOf("ENCRYPTED PRIVATE KEY", exchangeDER), 0, 0, 0, []string{"holds an encrypted key"}},
		"something":     {blockOf("X509 CRL", []byte("x")), 0, 0, 0, []string{"holds a PEM block that is no certificate and no key"}},
		"huge key": {slices.Concat(blockOf("PUBLIC KEY", hugeDER), publicPEM(t, a.key)), 0, 0, 1,
			[]string{"holds an RSA key of 8200 bits: at most 8192 are read"}},
		"huge certificate": {blockOf("CERTIFICATE", bytes.Repeat([]byte{1}, mostCert+1)), 0, 0, 0,
			[]string{"holds a certificate of 65537 bytes: at most 65536 are read"}},
		"huge text": {bytes.Repeat([]byte("x"), mostPEM+1), 0, 0, 0, []string{"has 1048577 bytes: at most 1048576 are read"}},
		"many": {bytes.Repeat(a.certPEM(), mostBlocks+1), mostBlocks, 0, 0,
			[]string{"holds more than 200 certificates and keys: the others are not read"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Read(c.text)
			if len(got.Certificates) != c.certs || len(got.Private) != c.private || len(got.Public) != c.public {
				t.Errorf("%d certificates, %d private, %d public keys; want %d, %d, %d", len(got.Certificates), len(got.Private), len(got.Public),
					c.certs, c.private, c.public)
			}
			if !slices.Equal(got.Unread, c.unread) {
				t.Errorf("unread: %s\nwant:   %s", strings.Join(got.Unread, "; "), strings.Join(c.unread, "; "))
			}
			for _, key := range got.Private {
				if der, err := x509.MarshalPKIXPublicKey(key); err != nil || len(der) == 0 {
					t.Errorf("%T is no public key: %v", key, err)
				}
			}
		})
	}
}
