package cache

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	signed "github.com/quorate/quorate/internal/program/signature"
)

// ErrBundle is wrapped by errors about a bundle that must not be imported: another platform, release or key, or damage.
var ErrBundle = errors.New("the bundle is refused")

// A bundle is a tar, compressed with zstd: bundleFile, then signatureFile if it is signed, then each distinct content once, in the order in
// which the products list it. Equal products give equal bytes.
const (
	bundleFormat    = 1
	bundleFile      = "bundle.json"
	signatureFile   = "bundle.sig" // base64 of the ed25519 signature of bundleFile's SHA-256
	contentPrefix   = "files/"     // and the content's SHA-256
	bundleFileLimit = 64 << 20     // bytes of bundleFile at most
)

// bundle is what bundleFile says.
type bundle struct {
	Format     int        `json:"format"`
	Platform   string     `json:"platform"`   // linux/amd64
	Kubernetes []string   `json:"kubernetes"` // the versions that it was made for
	Products   []manifest `json:"products"`
}

// sizes are those of the contents that products list.
func (b bundle) sizes() map[Digest]int64 {
	all := map[Digest]int64{}
	for _, m := range b.Products {
		for _, e := range m.Entries {
			if e.Mode[0] == '-' {
				all[e.Sum] = e.Size
			}
		}
	}
	return all
}

// Platform is that of the products which this program makes.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// header is that of a file in a bundle; nothing in it is of the host.
func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, Format: tar.FormatUSTAR}
}

// checkSignature returns an error unless a text is signed with the private key of a public one.
func checkSignature(key ed25519.PublicKey, text, signature []byte) error {
	if signature == nil {
		return fmt.Errorf("%w: it has no signature, and one by the given key is required", ErrBundle)
	}
	err := signed.Verify(key, text, signature)
	switch {
	case errors.Is(err, signed.ErrOther):
		return fmt.Errorf("%w: its signature is not of the given key, or %s was changed", ErrBundle, bundleFile)
	case err != nil:
		return fmt.Errorf("%w: reading its signature: %w", ErrBundle, err)
	}
	return nil
}

// parseBundle reads a bundleFile that this program can import.
func parseBundle(text []byte, known []Product) (bundle, error) {
	var b bundle
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return b, fmt.Errorf("%w: reading %s: %w", ErrBundle, bundleFile, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return b, fmt.Errorf("%w: %s has something after its end", ErrBundle, bundleFile)
	}
	if b.Format != bundleFormat {
		return b, fmt.Errorf("%w: its format is %d: %d is accepted; it was made by another release", ErrBundle, b.Format, bundleFormat)
	}
	if b.Platform != Platform() {
		return b, fmt.Errorf("%w: its platform is %s: %s is accepted", ErrBundle, b.Platform, Platform())
	}
	seen := map[string]bool{}
	for _, m := range b.Products {
		if err := m.checkImport(known); err != nil {
			return b, err
		}
		if seen[m.product().prefix()] {
			return b, fmt.Errorf("%w: it lists %s twice", ErrBundle, m.product())
		}
		seen[m.product().prefix()] = true
	}
	return b, nil
}

// product is what a manifest describes. It cannot be made.
func (m manifest) product() Product {
	return Product{Name: m.Product, Version: m.Version, Inputs: m.Inputs, Host: m.Host}
}

// match returns the known product that a manifest describes, on whatever host it was made.
func (m manifest) match(known []Product) (Product, bool) {
	for _, p := range known {
		if p.Name == m.Product && p.Version == m.Version && p.Inputs == m.Inputs {
			return p, true
		}
	}
	return Product{}, false
}

// checkImport returns an error unless a product of a bundle is known and all its paths lie within its folder.
func (m manifest) checkImport(known []Product) error {
	if _, ok := m.match(known); !ok {
		var accepted []string
		for _, p := range known {
			if p.Name == m.Product {
				accepted = append(accepted, p.Version+" of inputs "+p.Inputs.short())
			}
		}
		if len(accepted) == 0 {
			accepted = []string{"nothing of this name"}
		}
		return fmt.Errorf("%w: its %s %s is of inputs %s, made by another release of quorate: must be %s",
			ErrBundle, m.Product, m.Version, m.Inputs.short(), strings.Join(accepted, " or "))
	}
	if m.Imported || !isDigest(m.Host) {
		return fmt.Errorf("%w: the description of %s %s is damaged", ErrBundle, m.Product, m.Version)
	}
	kinds := map[string]byte{".": 'd'}
	for _, e := range m.Entries {
		if _, twice := kinds[e.Path]; twice {
			return fmt.Errorf("%w: %s lists %q twice", ErrBundle, m.product(), e.Path)
		}
		if problem := e.checkImport(kinds); problem != "" {
			return fmt.Errorf("%w: %q of %s %s", ErrBundle, e.Path, m.product(), problem)
		}
		kinds[e.Path] = e.Mode[0]
	}
	return nil
}

// checkImport says what forbids to import an entry, given the kinds of what comes before it, by path; empty if nothing does.
func (e entry) checkImport(before map[string]byte) string {
	kind, _, ok := parseMode(e.Mode)
	switch {
	case !isPlain(e.Path) || e.Path == "." || e.Path == manifestFile:
		return "is not a path within a product"
	case before[path.Dir(e.Path)] != 'd':
		return "does not lie in a folder of the product"
	case !ok:
		return fmt.Sprintf("has mode %q: files, folders and links with plain permissions are accepted", e.Mode)
	}
	rest := e
	switch kind {
	case '-':
		if !isDigest(e.Sum) || e.Size < 0 {
			return "has no checksum or size of a file"
		}
		rest.Sum, rest.Size = "", 0
	case 'L':
		if !isPlain(e.Link) { // upwards is refused altogether: after another link, ".." is not what the text says
			return fmt.Sprintf("is a link to %q: a path downwards is accepted", e.Link)
		}
		rest.Link = ""
	}
	if rest.Sum != "" || rest.Size != 0 || rest.Link != "" {
		return "is described as more than one of a file, a folder and a link"
	}
	return ""
}

// isPlain reports whether a path leads downwards, without detours.
func isPlain(p string) bool { return filepath.IsLocal(p) && path.Clean(p) == p }

func isDigest(d Digest) bool {
	raw, err := hex.DecodeString(string(d))
	return err == nil && len(raw) == sha256.Size && strings.ToLower(string(d)) == string(d)
}

// parseMode reads what fs.FileMode prints: the kind (-, d or L) and the permissions. Others are not accepted.
func parseMode(text string) (kind byte, mode fs.FileMode, ok bool) {
	if len(text) != 10 || !strings.ContainsRune("-dL", rune(text[0])) {
		return 0, 0, false
	}
	for i, letter := range []byte("rwxrwxrwx") {
		if text[i+1] == letter {
			mode |= 1 << (8 - i)
		} else if text[i+1] != '-' {
			return 0, 0, false
		}
	}
	return text[0], mode, true
}

// reading asks before each read whether to go on.
type reading struct {
	io.Reader
	each func() error
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.each(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
