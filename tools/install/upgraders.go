package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// repositoryVariable is the variable of clusterctl by which a mirror takes the place of the upgrader images' repository.
const repositoryVariable = "QUORATE_UPGRADER_REPOSITORY"

// upgraderImages is a ConfigMap with upgrader images, as much as is read of it.
type upgraderImages struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// readUpgraders reads the ConfigMap with upgrader images, and has its repository be clusterctl's variable. Without a file there are no
// images.
func (o *options) readUpgraders() (upgraderImages, error) {
	var images upgraderImages
	if o.upgraders == "" {
		return images, nil
	}
	raw, err := os.ReadFile(o.upgraders)
	if err != nil {
		return images, fmt.Errorf("--upgrader-images: %w", err)
	}
	if err := yaml.Unmarshal(raw, &images); err != nil {
		return images, fmt.Errorf("--upgrader-images: reading %s: %w", o.upgraders, err)
	}
	if err := images.useVariable(); err != nil {
		return images, fmt.Errorf("--upgrader-images: %s: %w", o.upgraders, err)
	}
	return images, nil
}

// useVariable has all images be of the repository that clusterctl's variable names.
func (u upgraderImages) useVariable() error {
	if u.Metadata.Name == "" || len(u.Data) == 0 {
		return errors.New("must be a ConfigMap with a name and images")
	}
	for key, value := range u.Data {
		if strings.HasSuffix(key, ".brings") {
			continue
		}
		repository, digest, found := strings.Cut(value, "@sha256:")
		if !found || repository == "" {
			return fmt.Errorf("invalid image %q of %s: must be named by digest, such as example.com/upgrader@sha256:0123", value, key)
		}
		u.Data[key] = fmt.Sprintf("${%s:=%s}@sha256:%s", repositoryVariable, repository, digest)
	}
	return nil
}

// upgraders returns the ConfigMap with upgrader images for the provider's components, as one more YAML document. It returns nil if the
// provider needs none, or
// there are none.
func (p provider) upgraders(images upgraderImages) ([]byte, error) {
	if len(images.Data) == 0 || p.Upgraders == "" {
		return nil, nil
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": images.Data,
		"metadata": map[string]any{"name": images.Metadata.Name, "namespace": p.Upgraders,
			"labels": map[string]string{"cluster.x-k8s.io/provider": p.label()}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the ConfigMap of the upgrader images: %w", err)
	}
	return append([]byte("---\n"), text...), nil
}
