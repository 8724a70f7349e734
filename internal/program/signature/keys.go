package signature

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// longestKey is how many bytes a file with a key has at most.
const longestKey = 64 << 10

// ReadPrivateKey reads an ed25519 private key from a PEM file. A file that every user of the host may read or write is refused. Errors say
// nothing of the content.
func ReadPrivateKey(file string) (ed25519.PrivateKey, error) {
	block, err := readPEM(file, "PRIVATE KEY", private)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if key, ok := parsed.(ed25519.PrivateKey); ok && err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("key %s: is no ed25519 private key in PKCS#8; `openssl genpkey -algorithm ed25519` makes one", file)
}

// ReadPublicKey reads an ed25519 public key from a PEM file.
func ReadPublicKey(file string) (ed25519.PublicKey, error) {
	block, err := readPEM(file, "PUBLIC KEY", nil)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block)
	if key, ok := parsed.(ed25519.PublicKey); ok && err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("key %s: is no ed25519 public key; `openssl pkey -pubout` makes one of a private key", file)
}

// private returns an error for a file that every user of the host may read or write.
func private(file string, mode os.FileMode) error {
	if mode.IsRegular() && mode.Perm()&0o007 != 0 {
		return fmt.Errorf("key %s: has mode %04o, so that every user of the host can read it: must be 0600 or 0640", file, mode.Perm())
	}
	return nil
}

func readPEM(file, kind string, check func(string, os.FileMode) error) (block []byte, err error) {
	if strings.Contains(file, "-----BEGIN ") || strings.Contains(file, "\n") {
		// An error must not quote it, and a user who lists processes has seen it.
		return nil, errors.New(
			"reading the key: the name of a file was expected, got its content; if it is a private key, do not use it any more",
		)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	info, err := opened.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	if check != nil {
		if err := check(file, info.Mode()); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(opened, longestKey))
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	decoded, _ := pem.Decode(text)
	if decoded == nil || decoded.Type != kind {
		return nil, fmt.Errorf("key %s: a PEM file with a %s is accepted", file, kind)
	}
	return decoded.Bytes, nil
}
