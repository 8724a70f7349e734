// Package published lists the images of a release, by digest: for mirrors, and for the manager, which finds upgrader images in a
// ConfigMap. It does not know how
// images are built.
package published

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// The lists of the images of a release.
const (
	// ImagesFile has a line for each image: its name with the tag, its digest, and the folder of its layout in the release.
	ImagesFile = "images.txt"
	// UpgradersFile is the ConfigMap in which the manager finds upgrader images.
	UpgradersFile = "upgrader-images.yaml"
)

// managerNamespace is the namespace in which config/default has the manager.
const managerNamespace = "quorate-system"

// Image is an image as a release publishes it.
type Image struct {
	// Name is its name with the tag.
	Name string
	// Digest is that of its index, which has an image for each architecture, such as sha256:0123... A copy in another registry has the
	// same.
	Digest string
	// Folder is that of its layout, below the folder of the release.
	Folder string
	// Kubernetes is the version that an upgrader's image upgrades nodes to, and Brings what it brings beside Kubernetes, as JSON. Empty
	// for other images.
	Kubernetes, Brings string
}

// reference is the image's name by digest.
func (p Image) reference() string {
	return p.Name[:strings.LastIndex(p.Name, ":")] + "@" + p.Digest
}

// entries are the upgrader images of a release, by digest.
func entries(images []Image) []upgraders.Entry {
	var of []upgraders.Entry
	for _, p := range images {
		if p.Kubernetes != "" {
			of = append(of, upgraders.Entry{Version: p.Kubernetes, Image: p.reference(), Brings: p.Brings})
		}
	}
	return of
}

// Write writes the lists of the images of a release to its folder: one for mirrors, with all images, and the ConfigMap of the upgrader
// images. Without
// upgrader images there is no ConfigMap, and that of an earlier release is removed.
func Write(folder string, images []Image) error {
	var lines strings.Builder
	for _, p := range images {
		fmt.Fprintf(&lines, "%s %s %s\n", p.Name, p.Digest, p.Folder)
	}
	if err := os.WriteFile(filepath.Join(folder, ImagesFile), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("listing the images: %w", err)
	}
	file := filepath.Join(folder, UpgradersFile)
	data := upgraders.Data(entries(images))
	if len(data) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the ConfigMap of earlier upgrader images: %w", err)
		}
		return nil
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": corev1.SchemeGroupVersion.String(), "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": upgraders.ConfigMap, "namespace": managerNamespace,
			"labels": map[string]string{"cluster.x-k8s.io/provider": "control-plane-quorate"},
		},
		"data": data,
	})
	if err != nil {
		return fmt.Errorf("writing the ConfigMap of the upgrader images: %w", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("writing the ConfigMap of the upgrader images: %w", err)
	}
	return nil
}
