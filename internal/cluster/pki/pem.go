package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// publicKey is what all public keys of the standard library are.
type publicKey interface {
	Equal(crypto.PublicKey) bool
}

// users and usageNames name what a certificate may be used for.
var (
	users      = map[x509.ExtKeyUsage]string{x509.ExtKeyUsageClientAuth: "client", x509.ExtKeyUsageServerAuth: "server"}
	usageNames = map[x509.ExtKeyUsage]string{x509.ExtKeyUsageClientAuth: "clientAuth", x509.ExtKeyUsageServerAuth: "serverAuth"}
)

// isFor reports whether a certificate may be used so. One that names no uses may be used for all.
func isFor(cert *x509.Certificate, usage x509.ExtKeyUsage) bool {
	named := len(cert.ExtKeyUsage) + len(cert.UnknownExtKeyUsage)
	return named == 0 || slices.Contains(cert.ExtKeyUsage, usage) || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// small says that a datum is too large to be parsed, and reports whether it is not.
func (c *check) small(d Datum, bounded func([]byte) error) bool {
	err := bounded(d.PEM)
	if err != nil {
		c.say(d.Where, fmt.Sprintf("a certificate or key of at most %d bits", MostBits), "%s", err)
	}
	return err == nil
}

// readCerts reads certificates, the first at the beginning of the text: the bootstrap provider looks no further.
func (c *check) readCerts(d Datum) []*x509.Certificate {
	if len(d.PEM) == 0 || !c.small(d, Bounded) {
		return nil
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(d.PEM); block != nil; block, rest = pem.Decode(rest) {
		cert, err := parseCert(block.Bytes)
		if block.Type != certificateType || err != nil {
			break
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		c.say(d.Where, "a certificate in PEM", "holds no certificate")
	}
	return certs
}

// readKey reads a private key and returns its public half; nil: there is none. Whatever is allowed before it: nothing
// for an authority, as the bootstrap provider looks no further.
func (c *check) readKey(d Datum, anywhere bool) publicKey {
	if len(d.PEM) == 0 || !c.small(d, BoundedKey) {
		return nil
	}
	block, rest := pem.Decode(d.PEM)
	for anywhere && block != nil && !isPrivate(block) {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		c.say(d.Where, "a private key in PEM", "holds no private key")
		return nil
	}
	key, err := parseKey(block.Bytes)
	if errors.As(err, new(*SizeError)) {
		c.say(d.Where, fmt.Sprintf("a key of at most %d bits", MostBits), "%s", err)
		return nil
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return &key.PublicKey
	case *ecdsa.PrivateKey:
		return &key.PublicKey
	}
	c.say(d.Where, "an RSA or ECDSA key in PEM, not encrypted and with nothing before it", "holds no private key that kubeadm can read")
	return nil
}

// readPublic reads public keys, each alone or within a certificate.
func (c *check) readPublic(d Datum) []publicKey {
	if len(d.PEM) == 0 || !c.small(d, Bounded) {
		return nil
	}
	var keys []publicKey
	for block, rest := pem.Decode(d.PEM); block != nil; block, rest = pem.Decode(rest) {
		found, err := parsePublic(block.Bytes)
		if key, ok := found.(publicKey); ok && err == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		c.say(d.Where, "a public key in PEM", "holds no public key")
	}
	return keys
}
