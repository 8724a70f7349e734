// Package signature signs texts, and verifies them: ed25519 over a text's SHA-256, in base64, so that a text of any size can be signed and
// `openssl` alone verifies it. It knows keys in PEM files. It does not know what is signed.
package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrOther is returned for a signature that is not by a key, or of another text.
var ErrOther = errors.New("it is not by the given key, or the text was changed")

// Sign returns the signature of a text, as a line.
func Sign(key ed25519.PrivateKey, text []byte) []byte {
	sum := sha256.Sum256(text)
	return []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(key, sum[:])) + "\n")
}

// Verify returns an error unless signature is that of a text by the private key of a public one.
func Verify(key ed25519.PublicKey, text, signature []byte) error {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature)))
	if err != nil {
		return fmt.Errorf("it is not in base64: %w", err)
	}
	sum := sha256.Sum256(text)
	if !ed25519.Verify(key, sum[:], raw) {
		return ErrOther
	}
	return nil
}
