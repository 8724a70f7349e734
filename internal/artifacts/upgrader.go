package artifacts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/internal/artifacts/cache"
	"github.com/quorate/quorate/internal/artifacts/image"
	"github.com/quorate/quorate/internal/steps"
)

// UpgraderImage is the name, without a tag, of the images that bring nodes to a version: the tag is the version.
const UpgraderImage = "quorate.io/upgrader"

// upgraderFile is the image in the product's folder.
const upgraderFile = "upgrader.tar"

// upgraderPrograms are the programs of a version that its upgrader's image has in /bin: those that it installs, and those that it works with.
var upgraderPrograms = []string{"ctr", "etcdctl", "etcdutl", "kubeadm", "kubectl", "kubelet"}

// EnsureUpgrader returns the file, in the format of `docker save`, of the image that brings a node to the version of the set. Program is
// the file of quorate-upgrader, which becomes the image's entry point. An image is made once for each content of both.
func EnsureUpgrader(ctx context.Context, o Options, set *Set, program string) (string, error) {
	// Prebuilt artifacts have no such image, and need none: it is made of what they have.
	c, err := o.openCache()
	if err != nil {
		return "", err
	}
	p, err := upgraderProduct(set, program)
	if err != nil {
		return "", err
	}
	folder, err := c.Ensure(ctx, p)
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, upgraderFile), nil
}

// upgraderProduct is an upgrader's image. The set's folder names what is in it by its inputs.
func upgraderProduct(set *Set, program string) (cache.Product, error) {
	digest, err := cache.SumFile(program)
	if err != nil {
		return cache.Product{}, fmt.Errorf("computing the checksum of the upgrader: %w", err)
	}
	name := UpgraderImage + ":" + set.Kubernetes
	return cache.Product{
		Name: "upgrader", Version: set.Kubernetes,
		Inputs: cache.Sum("upgrader", "2", name, fmt.Sprint(upgraderPrograms), fmt.Sprint(common), string(digest)),
		Host:   cache.Sum(filepath.Base(set.Machine), filepath.Base(set.CNI)),
		Needs:  []cache.Need{{Bytes: 600 << 20}},
		Build: func(ctx context.Context, w cache.Workplace) error {
			w.Report("writing %s", name)
			files := append([]image.File{{Path: "/upgrader", Source: program, Mode: 0o755}}, common...)
			for _, p := range upgraderPrograms {
				files = append(files, image.File{Path: "/bin/" + p, Source: filepath.Join(set.Machine, p), Mode: 0o755})
			}
			runtime, err := runtimeFiles(ctx, set)
			if err != nil {
				return err
			}
			files = append(files, runtime...)
			return image.Write(filepath.Join(w.Out, upgraderFile), w.Work, image.Image{Name: name, Entrypoint: []string{"/upgrader"}, Files: files})
		},
	}, nil
}

// runtimeFiles are containerd, runc and the CNI plugins of a set, as far as it has them, and the file that says their versions, as they say them themselves. The image has
// a ctr anyway.
func runtimeFiles(ctx context.Context, set *Set) ([]image.File, error) {
	var files []image.File
	var brings steps.Brings
	for _, name := range append(slices.Clone(steps.RuntimePrograms), steps.RuncProgram) {
		source := filepath.Join(set.Machine, name)
		if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		said := map[string]*string{steps.RuntimePrograms[0]: &brings.Containerd, steps.RuncProgram: &brings.Runc}[name]
		if err := sayVersion(ctx, source, said); err != nil {
			return nil, err
		}
		if !slices.Contains(upgraderPrograms, name) {
			files = append(files, image.File{Path: "/bin/" + name, Source: source, Mode: 0o755})
		}
	}
	plugins, err := filepath.Glob(filepath.Join(cmp.Or(set.CNI, os.DevNull), "*"))
	if err != nil {
		return nil, fmt.Errorf("looking for CNI plugins: %w", err)
	}
	for _, source := range plugins {
		info, err := os.Stat(source)
		if err != nil || info.Mode()&0o111 == 0 {
			continue // the cache's own note
		}
		if err := sayVersion(ctx, source, &brings.CNI); err != nil {
			return nil, err
		}
		files = append(files, image.File{Path: path.Join(steps.PluginDir, filepath.Base(source)), Source: source, Mode: 0o755})
	}
	text, err := json.Marshal(brings)
	if err != nil {
		return nil, fmt.Errorf("writing what the upgrader's image brings: %w", err)
	}
	return append(files, image.File{Path: steps.BringsFile, Text: string(text), Mode: 0o644}), nil
}

// sayVersion puts the version that a program says into a variable; nil: nobody asks.
func sayVersion(ctx context.Context, program string, into *string) error {
	if into == nil {
		return nil
	}
	output, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w: %s", program, err, output)
	}
	if *into = steps.SaidVersion(string(output)); *into == "" {
		return fmt.Errorf("asking %s for its version: it says %q", program, output)
	}
	return nil
}
