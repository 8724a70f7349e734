package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/artifacts/image"
	"github.com/quorate/quorate/internal/release/contents"
	"github.com/quorate/quorate/internal/release/published"
)

// The names of images, without a tag.
const (
	ManagerImage  = "ghcr.io/quorate/quorate-manager"
	UpgraderImage = "ghcr.io/quorate/quorate-upgrader"
)

// What an image may take at most, compressed, in bytes.
const (
	mostManager  = 60e6
	mostUpgrader = 350e6
)

// contentsFolder is where images have the list of what is in them.
const contentsFolder = "/usr/share/spdx"

// nonroot is the user and the group of the manager, as config/manager has them.
const nonroot = "65532:65532"

// gzipLevel halves once more what the fastest level leaves of programs.
const gzipLevel = 6

// A recipe is one image for all architectures.
type recipe struct {
	name        string // with its tag
	folder      string // of the layout, below Out/images
	title       string
	description string
	user        string
	entrypoint  string
	most        int64
	// programs are the files to put in, for one architecture, by their paths in the image, and texts what else is in it, by their paths too.
	programs func(arch string) (programs, texts map[string]string, err error)
}

func (r *Release) manager(ctx context.Context) (published.Image, error) {
	return r.write(recipe{
		name: ManagerImage + ":" + r.Version, folder: "quorate-manager", title: "quorate-manager",
		description: "Quorate's controllers for a management cluster of Cluster API",
		user:        nonroot, entrypoint: "/quorate-manager", most: mostManager,
		programs: func(arch string) (programs, texts map[string]string, err error) {
			file, err := r.build(ctx, arch, "manager")
			return map[string]string{"/quorate-manager": file}, nil, err
		},
	})
}

// upgrader is root: it changes files of the node that belong to root, in a privileged pod. Its tag names the release too: another release
// has another image for
// the same version of Kubernetes, and must not take the tag from this one.
func (r *Release) upgrader(ctx context.Context, kubernetes string) (published.Image, error) {
	var brings []byte
	written, err := r.write(recipe{
		name: UpgraderImage + ":" + r.Version + "-" + kubernetes, folder: "upgrader-" + kubernetes, title: "quorate-upgrader",
		description: "Brings a node to Kubernetes " + kubernetes + " without replacing its machine",
		entrypoint:  "/upgrader", most: mostUpgrader,
		programs: func(arch string) (programs, texts map[string]string, err error) {
			own, err := r.build(ctx, arch, "upgrader")
			if err != nil {
				return nil, nil, err
			}
			r.Report("building the programs of Kubernetes %s for %s, unless they are in the cache", kubernetes, arch)
			u, err := artifacts.PublishedUpgrader(ctx, r.Artifacts, kubernetes, arch)
			if err != nil {
				return nil, nil, err
			}
			u.Programs["/upgrader"] = own
			// The same for all architectures: components are pinned once.
			if brings, err = json.Marshal(u.Brings); err != nil {
				return nil, nil, fmt.Errorf("writing what the upgrader's image brings: %w", err)
			}
			return u.Programs, map[string]string{steps.BringsFile: string(brings)}, nil
		},
	})
	written.Kubernetes, written.Brings = kubernetes, string(brings)
	return written, err
}

// write writes an image's layout, and lists what is in it beside it.
func (r *Release) write(of recipe) (published.Image, error) {
	var images []image.Image
	for _, arch := range r.Architectures {
		i, err := r.compose(of, arch)
		if err != nil {
			return published.Image{}, err
		}
		images = append(images, i)
	}
	folder := filepath.Join(r.Out, "images", of.folder)
	fresh := filepath.Join(r.work, "layout")
	r.Report("writing %s", of.name)
	written, err := image.WriteLayout(fresh, r.work, images)
	if err != nil {
		return published.Image{}, err
	}
	for _, s := range written.Sizes {
		r.Report("  %s: %.1f MB compressed, %.1f MB unpacked", s.Architecture, float64(s.Compressed)/1e6, float64(s.Unpacked)/1e6)
		if s.Compressed > of.most {
			return published.Image{}, fmt.Errorf("%s for %s takes %.1f MB, at most %.0f are allowed", of.name, s.Architecture,
				float64(s.Compressed)/1e6, float64(of.most)/1e6)
		}
	}
	r.Report("  %s", written.Digest)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(filepath.Dir(folder), 0o755)); err != nil {
		return published.Image{}, fmt.Errorf("making room for %s: %w", of.name, err)
	}
	if err := os.Rename(fresh, folder); err != nil {
		return published.Image{}, fmt.Errorf("placing %s: %w", of.name, err)
	}
	return published.Image{Name: of.name, Digest: written.Digest.String(), Folder: path.Join("images", of.folder)}, nil
}

// compose is the image of one architecture.
func (r *Release) compose(of recipe, arch string) (image.Image, error) {
	programs, texts, err := of.programs(arch)
	if err != nil {
		return image.Image{}, err
	}
	name := of.folder + "-linux-" + arch + ".spdx.json"
	list := filepath.Join(r.Out, "images", name)
	var sources []string
	files := artifacts.ImageBase()
	for inside, file := range programs {
		sources = append(sources, file)
		files = append(files, image.File{Path: inside, Source: file, Mode: 0o755})
	}
	for inside, text := range texts {
		files = append(files, image.File{Path: inside, Text: text, Mode: 0o644})
	}
	if err := r.list(of.folder+"-linux-"+arch, sources, list); err != nil {
		return image.Image{}, err
	}
	files = append(files, image.File{Path: path.Join(contentsFolder, of.title+".spdx.json"), Source: list, Mode: 0o644})
	return image.Image{
		Name: of.name, Architecture: arch, Entrypoint: []string{of.entrypoint}, User: of.user, Files: files, Created: r.date,
		Compression: gzipLevel,
		Labels: map[string]string{
			"org.opencontainers.image.title":       of.title,
			"org.opencontainers.image.description": of.description,
			"org.opencontainers.image.version":     r.Version,
			"org.opencontainers.image.revision":    r.Revision,
			"org.opencontainers.image.created":     r.date.UTC().Format(time.RFC3339),
			"org.opencontainers.image.source":      "https://github.com/quorate/quorate",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}, nil
}

// list writes what programs are made of.
func (r *Release) list(name string, programs []string, file string) error {
	document, err := contents.Source{
		ModuleCache: r.cache.GOMODCACHE, GoRoot: r.cache.GOROOT, Own: r.Root, Name: name, Version: r.Version, Created: r.date,
	}.List(programs)
	if err != nil {
		return err
	}
	raw, err := document.JSON()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("listing what %s is made of: %w", name, err)
	}
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		return fmt.Errorf("listing what %s is made of: %w", name, err)
	}
	return nil
}
