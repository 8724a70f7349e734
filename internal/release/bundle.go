package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// WriteBundles writes, for each version of Bundles, what `quorate up` imports instead of building (docs/bundles.md). What machines consist
// of can be built for the architecture of this host only: a release for others has no bundle.
func (r *Release) WriteBundles(ctx context.Context) error {
	system, arch, _ := strings.Cut(cache.Platform(), "/")
	if len(r.Bundles) == 0 {
		return nil
	}
	if !slices.Contains(r.Architectures, arch) {
		r.Report("no bundle: this host can build one for %s only, and the release is for %s", arch, strings.Join(r.Architectures, " and "))
		return nil
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return fmt.Errorf("making the folder of the release: %w", err)
	}
	for _, version := range r.Bundles {
		name := fmt.Sprintf("quorate-bundle-%s-%s-%s.tar.zst", version, system, arch)
		file := filepath.Join(r.Out, name)
		r.Report("building what machines of %s consist of, unless it is in the cache, and writing %s", version, name)
		size, err := artifacts.BuildBundle(ctx, r.Artifacts, []string{version}, file, r.KeyFile)
		if err != nil {
			return fmt.Errorf("writing the bundle of Kubernetes %s: %w", version, err)
		}
		digest, err := cache.SumFile(file)
		if err != nil {
			return err
		}
		signed := "not signed: no file with a key was named"
		if r.KeyFile != "" {
			signed = "signed"
		}
		r.Report("  %s, SHA-256 %s, %s", size, digest, signed)
	}
	return nil
}
