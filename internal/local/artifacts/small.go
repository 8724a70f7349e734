package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	pins "github.com/quorate/quorate/artifacts"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// pauseProduct is the one program that is our own.
func pauseProduct(tools toolchain) cache.Product {
	const version, source, flags = "v1", "pause/main.go", "-s -w"
	text, err := fs.ReadFile(pins.Pins, source)
	goLine, goErr := goVersion()
	p := pin{mod: fmt.Sprintf("module pause\n\ngo %s\n\ntool pause\n", goLine)}
	return cache.Product{
		Name: "pause", Version: version,
		Inputs: cache.Sum("component", recipe, p.mod, string(text), flags),
		Host:   tools.digest, HostErr: errors.Join(tools.err, err, goErr),
		Needs: []cache.Need{{Bytes: 4 << 20}},
		Build: func(ctx context.Context, w cache.Workplace) error {
			if err := os.WriteFile(filepath.Join(w.Work, "main.go"), text, 0o644); err != nil {
				return fmt.Errorf("writing the source: %w", err)
			}
			return buildPrograms(ctx, tools, w, p, []string{"-ldflags", flags})
		},
	}
}

const clusterAPIModule = "sigs.k8s.io/cluster-api"

// clusterAPIProduct is a copy of manifests that lie in Cluster API's module.
func clusterAPIProduct(tools toolchain) (cache.Product, error) {
	p, err := readPin("cluster-api")
	if err != nil {
		return cache.Product{}, err
	}
	version, err := p.version(clusterAPIModule)
	if err != nil {
		return cache.Product{}, err
	}
	folders := map[string]string{"core": "core/config", "bootstrap": "bootstrap/kubeadm/config"}
	return cache.Product{
		Name: "cluster-api", Version: version,
		Inputs: cache.Sum("cluster-api", "1", p.mod, p.sum, fmt.Sprint(folders)),
		Host:   cache.Sum("any"), HostErr: tools.err,
		Needs: []cache.Need{{Bytes: 16 << 20}},
		Build: func(ctx context.Context, w cache.Workplace) error {
			source, err := fetch(ctx, tools, w, p, clusterAPIModule+"@"+version)
			if err != nil {
				return err
			}
			for to, from := range folders {
				for _, part := range []string{"crd", "webhook", "rbac"} {
					if err := copyManifests(filepath.Join(source, from, part), filepath.Join(w.Out, to, part)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}, nil
}

// fetch returns the folder of a module's source, after comparing its checksum with the pins.
func fetch(ctx context.Context, tools toolchain, w cache.Workplace, p pin, module string) (string, error) {
	if err := writeModule(w.Work, p); err != nil {
		return "", err
	}
	output, err := tools.run(ctx, w.Work, narrate(w.Report, 0), "mod", "download", "-json", module)
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w: %s", module, err, output)
	}
	var answer struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(output, &answer); err != nil {
		return "", fmt.Errorf("fetching %s: reading Go's answer: %w", module, err)
	}
	if answer.Error != "" {
		return "", fmt.Errorf("fetching %s: %s", module, answer.Error)
	}
	if !strings.Contains(p.sum, strings.Replace(module, "@", " ", 1)+" "+answer.Sum+"\n") {
		return "", fmt.Errorf("fetching %s: its checksum %s is not the pinned one", module, answer.Sum)
	}
	return answer.Dir, nil
}

// copyManifests copies the YAML files of a folder and those below it.
func copyManifests(from, to string) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return copyFile(path, target, 0o644)
	})
	if err != nil {
		return fmt.Errorf("copying manifests: %w", err)
	}
	return nil
}

// link makes a hard link, or a copy on file systems that have none.
func link(from, to string) error {
	if err := os.Link(from, to); err == nil {
		return nil
	}
	if err := copyFile(from, to, 0o755); err != nil {
		return fmt.Errorf("copying a program: %w", err)
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	return target.Close()
}
