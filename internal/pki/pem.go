package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
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

// readCerts reads certificates, the first at the beginning of the text: the bootstrap provider looks no further.
func (c *check) readCerts(d Datum) []*x509.Certificate {
	if len(d.PEM) == 0 {
		return nil
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(d.PEM); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
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
	if len(d.PEM) == 0 {
		return nil
	}
	block, rest := pem.Decode(d.PEM)
	for anywhere && block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		c.say(d.Where, "a private key in PEM", "holds no private key")
		return nil
	}
	switch key := privateKey(block.Bytes).(type) {
	case *rsa.PrivateKey:
		return &key.PublicKey
	case *ecdsa.PrivateKey:
		return &key.PublicKey
	}
	c.say(d.Where, "an RSA or ECDSA key in PEM, not encrypted and with nothing before it,", "holds no private key that kubeadm can read")
	return nil
}

// privateKey reads a private key of whatever form; nil: it is none.
func privateKey(der []byte) any {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil
	}
	return key
}

// readPublic reads public keys, each alone or within a certificate.
func (c *check) readPublic(d Datum) []publicKey {
	if len(d.PEM) == 0 {
		return nil
	}
	var keys []publicKey
	for block, rest := pem.Decode(d.PEM); block != nil; block, rest = pem.Decode(rest) {
		if key, ok := public(block.Bytes).(publicKey); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		c.say(d.Where, "a public key in PEM", "holds no public key")
	}
	return keys
}

// public reads a public key; nil: it is none.
func public(der []byte) any {
	if key, err := x509.ParsePKIXPublicKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return key
	}
	if cert, err := x509.ParseCertificate(der); err == nil {
		return cert.PublicKey
	}
	return nil
}
