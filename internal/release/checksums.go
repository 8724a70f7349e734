package release

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/artifacts/cache"
)

// sumsFile is what `sha256sum --check` reads.
const sumsFile = "SHA256SUMS"

// Checksums writes the SHA-256 of every file below a folder to SHA256SUMS there, sorted by their paths.
func Checksums(folder string) error {
	var lines []string
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, file)
		if err != nil || inside == sumsFile {
			return err
		}
		digest, err := cache.SumFile(file)
		if err != nil {
			return err
		}
		lines = append(lines, string(digest)+"  "+filepath.ToSlash(inside)+"\n")
		return nil
	})
	if err != nil {
		return fmt.Errorf("computing checksums of %s: %w", folder, err)
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	if err := os.WriteFile(filepath.Join(folder, sumsFile), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return fmt.Errorf("writing checksums: %w", err)
	}
	return nil
}
