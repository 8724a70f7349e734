package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/release/published"
)

// installer is the module that renders what clusterctl installs, from the module's root.
const installer = "tools/install"

// manifests writes what an installation is made of: the components that clusterctl installs, and alerts and a dashboard.
func (r *Release) manifests(ctx context.Context) error {
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		raw, err := os.ReadFile(filepath.Join(r.Root, "config", "monitoring", name))
		if err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Join(r.Out, "monitoring"), 0o755); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(r.Out, "monitoring", name), raw, 0o644); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	return r.components(ctx)
}

// components writes what clusterctl installs. A tree that cannot render it says so, and has the rest.
func (r *Release) components(ctx context.Context) error {
	module := filepath.Join(r.Root, installer)
	if _, err := os.Stat(filepath.Join(module, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		r.Report("components for clusterctl are missing: these sources have no %s", installer)
		return nil
	}
	out := filepath.Join(r.Out, "components")
	r.Report("writing the components for clusterctl")
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("making room for the components: %w", err)
	}
	arguments := []string{"run", ".", "-root", r.Root, "-out", out, "-version", r.Version, "-image", ManagerImage}
	if slices.ContainsFunc(r.images, func(i published.Image) bool { return i.Kubernetes != "" }) {
		arguments = append(arguments, "-upgrader-images", filepath.Join(r.Out, published.UpgradersFile))
	}
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "PWD="+module)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing the components for clusterctl: %w: %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}
