package artifacts

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/artifacts/image"
)

// UpgraderImage is the name, without a tag, of the images that bring nodes to a version: the tag is the version.
const UpgraderImage = "quorate.io/upgrader"

// upgraderFile is the image in the product's folder.
const upgraderFile = "upgrader.tar"

// upgraderPrograms are the programs of a version that its upgrader's image has in /bin: those that it installs, and those that it works
// with.
var upgraderPrograms = []string{"ctr", "etcdctl", "etcdutl", "kubeadm", "kubectl", "kubelet"}

// EnsureUpgrader returns the file, in the format of `docker save`, of the image that brings a node to the version of the set. It brings no
// containerd, runc and CNI plugins, which all machines of a release have alike: they would make it a third larger. Program is
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
		Inputs: cache.Sum("upgrader", "1", name, fmt.Sprint(upgraderPrograms), fmt.Sprint(common), string(digest)),
		Host:   cache.Sum(filepath.Base(set.Machine)),
		Needs:  []cache.Need{{Bytes: 600 << 20}},
		Build: func(_ context.Context, w cache.Workplace) error {
			w.Report("writing %s", name)
			files := append([]image.File{{Path: "/upgrader", Source: program, Mode: 0o755}}, common...)
			for _, p := range upgraderPrograms {
				files = append(files, image.File{Path: "/bin/" + p, Source: filepath.Join(set.Machine, p), Mode: 0o755})
			}
			return image.Write(filepath.Join(w.Out, upgraderFile), w.Work, image.Image{Name: name, Entrypoint: []string{"/upgrader"}, Files: files})
		},
	}, nil
}
