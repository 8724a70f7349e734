package signature

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pair writes a new pair of keys.
func pair(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "pub")
	for file, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: privateDER},
		public: {Type: "PUBLIC KEY", Bytes: publicDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

func TestVerify(t *testing.T) {
	private, public := pair(t)
	key, err := ReadPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ReadPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	_, other := pair(t)
	stranger, err := ReadPublicKey(other)
	if err != nil {
		t.Fatal(err)
	}
	signed := Sign(key, []byte("text"))
	if err := Verify(pub, []byte("text"), signed); err != nil {
		t.Error(err)
	}
	if err := Verify(pub, []byte("texT"), signed); !errors.Is(err, ErrOther) {
		t.Errorf("a changed text: %v", err)
	}
	if err := Verify(stranger, []byte("text"), signed); !errors.Is(err, ErrOther) {
		t.Errorf("another key: %v", err)
	}
	for _, damaged := range []string{"", "!", "AAAA"} {
		if err := Verify(pub, []byte("text"), []byte(damaged)); err == nil {
			t.Errorf("the signature %q is accepted", damaged)
		}
	}
}

// TestPrivateKeyFile: a key that every user of the host may have is refused; so is its content in place of a file's name, which no error
// quotes.
func TestPrivateKeyFile(t *testing.T) {
	private, public := pair(t)
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o604: true, 0o644: true, 0o602: true,
		0o777: true} {
		if err := os.Chmod(private, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadPrivateKey(private)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "0600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if err := os.Chmod(public, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPublicKey(public); err != nil {
		t.Errorf("a public key is for everybody: %v", err)
	}
	content, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ReadPrivateKey(string(content))
	if err == nil || strings.Contains(err.Error(), strings.Split(string(content), "\n")[1]) {
		t.Errorf("the content of a key as its file's name: %v", err)
	}
	if _, err := ReadPrivateKey(public); err == nil {
		t.Error("a public key is taken for a private one")
	}
}
