package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	var overlay []string
	if quick {
		file, err := quickOverlay(ctx, root, folder)
		if err != nil {
			return err
		}
		overlay = []string{"-overlay", file}
	}
	for name, path := range modulePrograms {
		args := append([]string{"build", "-o", filepath.Join(folder, name)}, overlay...)
		if err := run(ctx, filepath.Join(root, "tools/upstream"), "go", append(args, path)...); err != nil {
			return err
		}
	}
	return nil
}

// quickOverlay is a file for `go build -overlay`.
func quickOverlay(ctx context.Context, root, folder string) (string, error) {
	dir, err := moduleDir(ctx, root, coreModule)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "controllers/clustercache/cluster_cache.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	const was, is = "ConnectionCreationRetryInterval: 30 * time.Second", "ConnectionCreationRetryInterval: time.Second"
	if bytes.Count(source, []byte(was)) != 1 {
		return "", fmt.Errorf("%s: want %q once", file, was)
	}
	changed := filepath.Join(folder, "cluster_cache.go")
	if err := os.WriteFile(changed, bytes.Replace(source, []byte(was), []byte(is), 1), 0o600); err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
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
