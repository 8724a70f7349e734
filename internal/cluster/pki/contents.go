package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// mostBlocks is how many certificates and keys of one text are read. A bundle of the authorities of all browsers has 150.
const mostBlocks = 200

// Contents is what a text in PEM holds. Of private keys it has the public halves only.
type Contents struct {
	Certificates []*x509.Certificate
	// Private are the public halves of private keys. Public are public keys that stand alone.
	Private, Public []crypto.PublicKey
	// Unread says of each part that was not read why. It holds nothing of the part.
	Unread []string
}

// Read reads all certificates and keys of a text in PEM. A part that cannot be read hides no other part.
func Read(text []byte) Contents {
	var c Contents
	if len(text) > mostPEM {
		c.Unread = append(c.Unread, fmt.Sprintf("has %d bytes: at most %d are read", len(text), mostPEM))
		return c
	}
	count := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > mostBlocks {
			c.Unread = append(c.Unread, fmt.Sprintf("holds more than %d certificates and keys: the others are not read", mostBlocks))
			break
		}
		if err := c.add(block); err != nil {
			c.Unread = append(c.Unread, err.Error())
		}
	}
	if count == 0 {
		c.Unread = append(c.Unread, "holds no PEM block")
	}
	return c
}

// add reads one block. The errors of the parsers may quote what they read, and are not returned.
func (c *Contents) add(block *pem.Block) error {
	switch {
	case block.Type == certificateType:
		cert, err := parseCert(block.Bytes)
		if err != nil {
			return unreadable(err, "holds a certificate that cannot be parsed")
		}
		c.Certificates = append(c.Certificates, cert)
	case strings.HasPrefix(block.Type, "ENCRYPTED ") || block.Headers["DEK-Info"] != "":
		return errors.New("holds an encrypted key")
	case isPrivate(block):
		key, err := parseKey(block.Bytes)
		if err != nil {
			return unreadable(err, "holds a private key that cannot be parsed")
		}
		pair, is := key.(interface{ Public() crypto.PublicKey })
		if !is {
			return errors.New("holds a private key of an unknown kind")
		}
		c.Private = append(c.Private, pair.Public())
	case strings.HasSuffix(block.Type, "PUBLIC KEY"):
		key, err := parsePublic(block.Bytes)
		if err != nil {
			return unreadable(err, "holds a public key that cannot be parsed")
		}
		c.Public = append(c.Public, key)
	default: // the parameters of an elliptic curve, which OpenSSL writes before a key
		if block.Type != "EC PARAMETERS" {
			return errors.New("holds a PEM block that is no certificate and no key")
		}
	}
	return nil
}

// unreadable is a size that is too large, or else only what cannot be read.
func unreadable(err error, otherwise string) error {
	if tooLarge, is := errors.AsType[*SizeError](err); is {
		return tooLarge
	}
	return errors.New(otherwise)
}
