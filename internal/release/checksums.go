package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// sumsFile is what `sha256sum --check` reads.
const sumsFile = "SHA256SUMS"

// Checksums writes the SHA-256 of every file below a folder to SHA256SUMS there, sorted by their paths. A signature of earlier ones goes.
func Checksums(folder string) error {
	var lines []string
	err := eachFile(folder, func(inside string, digest cache.Digest) { lines = append(lines, string(digest)+"  "+inside+"\n") })
	if err != nil {
		return fmt.Errorf("computing checksums of %s: %w", folder, err)
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	if err := os.WriteFile(filepath.Join(folder, sumsFile), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return fmt.Errorf("writing checksums: %w", err)
	}
	if err := os.Remove(filepath.Join(folder, signatureFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the signature of earlier checksums: %w", err)
	}
	return nil
}

// eachFile calls do for each file below a folder, but for the checksums and their signature, with its path there and its checksum.
func eachFile(folder string, do func(inside string, digest cache.Digest)) error {
	return filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, file)
		if err != nil || inside == sumsFile || inside == signatureFile {
			return err
		}
		digest, err := cache.SumFile(file)
		if err != nil {
			return err
		}
		do(filepath.ToSlash(inside), digest)
		return nil
	})
}
