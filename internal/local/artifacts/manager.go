package artifacts

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/artifacts/image"
)

// ManagerImage is the name, without a tag, of the images of the manager that are made for local machines. The tag is of the program's
// content.
const ManagerImage = "quorate.io/manager"

// managerFile is the image in the product's folder, managerPath where manifests expect the program.
const (
	managerFile = "manager.tar"
	managerPath = "/quorate-manager"
)

// EnsureManager returns the file, in the format of `docker save`, and the name of an image of the manager. Program is the file of
// quorate-manager. An image is made once for each content of it.
func EnsureManager(ctx context.Context, o Options, program string) (file, name string, err error) {
	c, err := o.openCache()
	if err != nil {
		return "", "", err
	}
	digest, err := cache.SumFile(program)
	if err != nil {
		return "", "", fmt.Errorf("computing the checksum of the manager: %w", err)
	}
	tag := fmt.Sprintf("%.12s", digest)
	name = ManagerImage + ":" + tag
	folder, err := c.Ensure(ctx, cache.Product{
		Name: "manager", Version: tag,
		Inputs: cache.Sum("manager", "1", name, managerPath, nonroot, fmt.Sprint(common), string(digest)),
		Host:   cache.Sum("any"),
		Needs:  []cache.Need{{Bytes: 150 << 20}},
		Build: func(_ context.Context, w cache.Workplace) error {
			w.Report("writing %s", name)
			files := append([]image.File{{Path: managerPath, Source: program, Mode: 0o755}}, common...)
			return image.Write(filepath.Join(w.Out, managerFile), w.Work, image.Image{Name: name, Entrypoint: []string{managerPath}, User: nonroot,
				Files: files})
		},
	})
	if err != nil {
		return "", "", err
	}
	return filepath.Join(folder, managerFile), name, nil
}
