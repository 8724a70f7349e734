package pki

import (
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// What keys and certificates may have at most. Users who may write a secret choose them, and the time that it takes to parse an RSA key
// grows with the square of its size: one of 262,144 bits takes 20 s.
const (
	// MostBits is how many bits an RSA key may have: as many as Go's TLS takes.
	MostBits = 8192
	// mostKey is how many bytes a private key may have in DER. One of MostBits has 4.7 KB.
	mostKey = 8 << 10
	// mostCert is how many bytes a certificate may have in DER; with 500 names it has some 20 KB.
	mostCert = 64 << 10
	// mostPEM is how many bytes a text in PEM may have: more than a secret holds.
	mostPEM = 1 << 20
)

// A SizeError says that a key or a certificate is too large to be parsed. Nothing of it is in the error.
type SizeError struct{ what string }

// Error implements error.
func (e *SizeError) Error() string { return e.what }

func tooLarge(format string, args ...any) error { return &SizeError{fmt.Sprintf(format, args...)} }

// Bounded returns an error where a text in PEM is too large to be parsed by somebody else: as a whole, a certificate in it, its key, or
// anything besides. That it can be parsed is not said.
func Bounded(text []byte) error { return eachBounded(text, mostCert) }

// BoundedKey is like Bounded for a text in which a private key is looked for, whatever the blocks in it are called.
func BoundedKey(text []byte) error { return eachBounded(text, mostKey) }

func eachBounded(text []byte, most int) error {
	if len(text) > mostPEM {
		return tooLarge("has %d bytes: at most %d are read", len(text), mostPEM)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		limit := most
		if block.Type != certificateType {
			limit = mostKey
		}
		if len(block.Bytes) > limit {
			return tooLarge("holds a key or certificate of %d bytes: at most %d are read", len(block.Bytes), limit)
		}
		if block.Type != certificateType {
			continue
		}
		if _, err := parseCert(block.Bytes); errors.As(err, new(*SizeError)) {
			return err
		}
	}
	return nil
}

// certificateType is the type of certificates in PEM.
const certificateType = "CERTIFICATE"

// parseCert parses a certificate.
func parseCert(der []byte) (*x509.Certificate, error) {
	if len(der) > mostCert {
		return nil, tooLarge("holds a certificate of %d bytes: at most %d are read", len(der), mostCert)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return cert, checkBits(cert.PublicKey)
}

// checkBits says that a key has too many bits: what it signed takes too long to verify.
func checkBits(key any) error {
	var bits int
	switch k := key.(type) {
	case *rsa.PublicKey:
		bits = k.N.BitLen()
	case *rsa.PrivateKey:
		bits = k.N.BitLen()
	}
	if bits > MostBits {
		return tooLarge("holds an RSA key of %d bits: at most %d are read", bits, MostBits)
	}
	return nil
}

// parseKey parses a private key of whatever form.
func parseKey(der []byte) (any, error) {
	if len(der) > mostKey {
		return nil, tooLarge("holds a key of %d bytes: at most %d are read", len(der), mostKey)
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, checkBits(key)
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("holds no private key")
	}
	return key, checkBits(key)
}

// parsePublic parses a public key, alone or within a certificate.
func parsePublic(der []byte) (any, error) {
	if len(der) > mostCert {
		return nil, tooLarge("holds a key or certificate of %d bytes: at most %d are read", len(der), mostCert)
	}
	if key, err := x509.ParsePKIXPublicKey(der); err == nil {
		return key, checkBits(key)
	}
	if key, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return key, checkBits(key)
	}
	cert, err := parseCert(der)
	if err != nil {
		return nil, err
	}
	return cert.PublicKey, nil
}

// Certificate returns the first certificate of a text in PEM.
func Certificate(text []byte) (*x509.Certificate, error) {
	if err := Bounded(text); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	return parseCert(block.Bytes)
}

// PrivateKey returns the private key with which a text in PEM begins.
func PrivateKey(text []byte) (crypto.Signer, error) {
	if err := BoundedKey(text); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	key, err := parseKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, is := key.(crypto.Signer)
	if !is {
		return nil, errors.New("holds a key that cannot sign")
	}
	return signer, nil
}

// KeyPair is tls.X509KeyPair for a certificate and a key of a reasonable size.
func KeyPair(cert, key []byte) (tls.Certificate, error) {
	if err := errors.Join(Bounded(cert), BoundedKey(key)); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// Pool returns the certificates of a text in PEM; there must be one.
func Pool(text []byte) (*x509.CertPool, error) {
	if err := Bounded(text); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("holds no certificate")
	}
	return pool, nil
}

// isPrivate reports whether a PEM block is called a private key.
func isPrivate(block *pem.Block) bool { return strings.HasSuffix(block.Type, "PRIVATE KEY") }
