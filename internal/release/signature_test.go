package release

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signedRelease is a folder with a release that is signed, and the file with the public key.
func signedRelease(t *testing.T) (folder, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	folder, public = t.TempDir(), filepath.Join(t.TempDir(), "release.pub")
	for file, data := range map[string][]byte{
		public: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), filepath.Join(folder, "quorate-linux-amd64"): []byte("program"),
		filepath.Join(folder, "b"): []byte("b"),
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Checksums(folder); err != nil {
		t.Fatal(err)
	}
	if err := sign(folder, key); err != nil {
		t.Fatal(err)
	}
	return folder, public
}

// TestVerifyRelease: whatever is changed in a signed release is found.
func TestVerifyRelease(t *testing.T) {
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, string)
		err    string
	}{
		"nothing":       {func(*testing.T, string) {}, ""},
		"a program":     {write("quorate-linux-amd64", "another"), "quorate-linux-amd64 has the checksum"},
		"the checksums": {write(sumsFile, ""), "the text was changed"},
		"both":          {func(t *testing.T, folder string) { write("b", "c")(t, folder); sums(t, folder) }, "is not signed"},
		"a new file":    {write("c", "c"), "c is not listed"},
		"a file less":   {remove("b"), "1 of 2 files"},
		"no signature":  {remove(signatureFile), "is not signed"},
		"a bad one":     {write(signatureFile, "%"), "not in base64"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, public := signedRelease(t)
			test.change(t, folder)
			files, err := Verify(folder, public)
			switch {
			case test.err == "":
				if err != nil || files != 2 {
					t.Errorf("%d files, %v", files, err)
				}
			case err == nil || !strings.Contains(err.Error(), test.err):
				t.Errorf("%v, want %q", err, test.err)
			}
		})
	}
}

func sums(t *testing.T, folder string) {
	t.Helper()
	if err := Checksums(folder); err != nil {
		t.Fatal(err)
	}
}

// TestOpenSSL: the page's commands verify a release without anything of Quorate, and refuse one that was changed.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	folder, public := signedRelease(t)
	page, err := os.ReadFile("../../docs/release.md")
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	var script []string
	for line := range strings.Lines(string(page)) {
		if command, is := strings.CutPrefix(line, "    "); is &&
			(strings.HasPrefix(command, "openssl ") || strings.HasPrefix(command, "sha256sum ")) {
			script = append(script, strings.NewReplacer("/tmp/release.pub", public, "/tmp/", temporary+"/").Replace(command))
		}
	}
	if len(script) != 4 {
		t.Fatalf("the page has %d commands", len(script))
	}
	verify := func() error {
		c := exec.Command("bash", "-euc", strings.Join(script, ""))
		c.Dir = folder
		out, err := c.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	if err := verify(); err != nil {
		t.Errorf("a release as it was made: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "b"), []byte("c"), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("a changed file is not found")
	}
	signed, err := os.ReadFile(filepath.Join(folder, signatureFile))
	if err != nil {
		t.Fatal(err)
	}
	sums(t, folder)
	if err := os.WriteFile(filepath.Join(folder, signatureFile), signed, 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("changed checksums are not found")
	}
}
