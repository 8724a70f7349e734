package artifacts

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// readPrivateKey reads an ed25519 key. Errors say nothing of the content.
func readPrivateKey(file string) (ed25519.PrivateKey, error) {
	block, err := readPEM(file, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if key, ok := parsed.(ed25519.PrivateKey); ok && err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("key %s: is no ed25519 private key in PKCS#8; `openssl genpkey -algorithm ed25519` makes one", file)
}

func readPublicKey(file string) (ed25519.PublicKey, error) {
	block, err := readPEM(file, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block)
	if key, ok := parsed.(ed25519.PublicKey); ok && err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("key %s: is no ed25519 public key; `openssl pkey -pubout` makes one of a private key", file)
}

func readPEM(file, kind string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("key %s: a PEM file with a %s is accepted", file, kind)
	}
	return block.Bytes, nil
}
