package release

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/program/signature"
)

// signatureFile has the signature of sumsFile, as package signature makes it.
const signatureFile = sumsFile + ".sig"

// sign signs the checksums of a folder.
func sign(folder string, key ed25519.PrivateKey) error {
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return fmt.Errorf("reading the checksums to sign: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, signatureFile), signature.Sign(key, text), 0o644); err != nil {
		return fmt.Errorf("writing the signature: %w", err)
	}
	return nil
}

// Verify returns an error unless the checksums of a folder are signed with the private key of the one in keyFile, and each file that they
// list is there and as it was. It returns the number of files. Files that are not listed are an error too: they are not signed.
func Verify(folder, keyFile string) (int, error) {
	key, err := signature.ReadPublicKey(keyFile)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return 0, fmt.Errorf("reading the checksums: %w", err)
	}
	signed, err := os.ReadFile(filepath.Join(folder, signatureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s is not signed: there is no %s", folder, signatureFile)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the signature: %w", err)
	}
	if err := signature.Verify(key, text, signed); err != nil {
		return 0, fmt.Errorf("signature %s: %w", filepath.Join(folder, signatureFile), err)
	}
	listed, err := parseSums(string(text))
	if err != nil {
		return 0, err
	}
	return len(listed), compare(folder, listed)
}

// parseSums returns the checksums of a file of sha256sum, by path.
func parseSums(text string) (map[string]cache.Digest, error) {
	listed := map[string]cache.Digest{}
	for line := range strings.Lines(text) {
		digest, file, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found || !filepath.IsLocal(file) {
			return nil, fmt.Errorf("invalid line %q of %s: must be a checksum, two spaces and a path in the folder", line, sumsFile)
		}
		listed[file] = cache.Digest(digest)
	}
	return listed, nil
}

// compare returns an error for each file of a folder that differs from its checksum, is missing, or has none.
func compare(folder string, listed map[string]cache.Digest) error {
	var failed []error
	found := 0
	err := eachFile(folder, func(inside string, digest cache.Digest) {
		switch want, is := listed[inside]; {
		case !is:
			failed = append(failed, fmt.Errorf("%s is not listed in %s", inside, sumsFile))
		case want != digest:
			failed = append(failed, fmt.Errorf("%s has the checksum %s, want %s", inside, digest, want))
			found++
		default:
			found++
		}
	})
	if missing := len(listed) - found; missing > 0 {
		failed = append(failed, fmt.Errorf("%d of %d files that %s lists are missing", missing, len(listed), sumsFile))
	}
	return errors.Join(append(failed, err)...)
}
