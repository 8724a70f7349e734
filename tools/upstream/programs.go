package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	coreModule = "sigs.k8s.io/cluster-api"
	testModule = "sigs.k8s.io/cluster-api/test"
)

// modulePrograms are Cluster API's own, by the name of the program.
var modulePrograms = map[string]string{
	"core":      coreModule + "/core",
	"bootstrap": coreModule + "/bootstrap/kubeadm",
	"upstream":  coreModule + "/controlplane/kubeadm",
	"in-memory": testModule + "/infrastructure/docker",
}

// programs builds everything that runs beside the API server into a folder. With quick, connections that could not be made are tried again
// after a second by Cluster API's controllers, where it is half a minute otherwise.
func programs(ctx context.Context, root, folder string, quick bool) error {
	if err := run(ctx, root, "go", "build", "-o", filepath.Join(folder, "quorate"), "./cmd/manager"); err != nil {
		return err
	}
	var quicker []string
	if quick {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		// Not among the sources of this module, and always at the same place, which Go's cache of builds goes by.
		copied := filepath.Join(cache, "quorate-bench-upstream")
		defer func() { _ = os.RemoveAll(copied) }()
		file, err := quickModule(ctx, root, folder, copied)
		if err != nil {
			return err
		}
		quicker = []string{"-modfile", file}
	}
	for name, path := range modulePrograms {
		args := append([]string{"build", "-o", filepath.Join(folder, name)}, quicker...)
		if err := run(ctx, filepath.Join(root, "tools/upstream"), "go", append(args, path)...); err != nil {
			return err
		}
	}
	return nil
}

// quickModule is a file for `go build -modfile`, in which Cluster API is a copy that tries connections that failed again after 1 s, not 30
// s. Go takes no overlay of what lies in its module cache.
func quickModule(ctx context.Context, root, folder, copied string) (string, error) {
	dir, err := moduleDir(ctx, root, coreModule)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(dir))); err != nil {
		return "", fmt.Errorf("copying %s: %w", dir, err)
	}
	file := filepath.Join(copied, "controllers/clustercache/cluster_cache.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	const was, is = "ConnectionCreationRetryInterval: 30 * time.Second", "ConnectionCreationRetryInterval: time.Second"
	if bytes.Count(source, []byte(was)) != 1 {
		return "", fmt.Errorf("%s: want %q once", file, was)
	}
	// The copy's files are as little to be written to as those of the module cache.
	if err := errors.Join(os.Remove(file), os.WriteFile(file, bytes.Replace(source, []byte(was), []byte(is), 1), 0o600)); err != nil {
		return "", err
	}
	module, err := os.ReadFile(filepath.Join(root, "tools/upstream/go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "tools/upstream/go.sum"))
	if err != nil {
		return "", err
	}
	quick := filepath.Join(folder, "go.mod")
	if err := errors.Join(os.WriteFile(quick, module, 0o600), os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600)); err != nil {
		return "", err
	}
	return quick, run(ctx, folder, "go", "mod", "edit", "-replace", coreModule+"="+copied, quick)
}

// moduleDir is where the sources of a module lie.
func moduleDir(ctx context.Context, root, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join(root, "tools/upstream")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
