package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/blang/semver/v4"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// provider is one of Quorate's providers as clusterctl knows them.
type provider struct {
	// Folder is that of config/clusterctl.
	Folder string
	Type   clusterctlv1.ProviderType
	// Components is the file that clusterctl asks a repository for.
	Components string
	// Upgraders is the namespace of the manager that looks for upgrader images. Empty: it looks for none.
	Upgraders string
}

// name is that of all of Quorate's providers: `clusterctl init --control-plane quorate`.
const name = "quorate"

// providers are all of Quorate's providers.
var providers = []provider{
	{"control-plane", clusterctlv1.ControlPlaneProviderType, "control-plane-components.yaml", "quorate-system"},
	{"bootstrap", clusterctlv1.BootstrapProviderType, "bootstrap-components.yaml", ""},
	{"infrastructure", clusterctlv1.InfrastructureProviderType, "infrastructure-components.yaml", ""},
	{"runtime-extension", clusterctlv1.RuntimeExtensionProviderType, "runtime-extension-components.yaml", "quorate-runtime-extension-system"},
}

// label is the name of the provider's folder in a repository, and the value of the label cluster.x-k8s.io/provider.
func (p provider) label() string { return clusterctlv1.ManifestLabel(name, p.Type) }

// options are what the command line says.
type options struct {
	root, out, version, image, upgraders string
}

// named is the image that config/manager names, as kustomize reads it.
type named struct {
	Images []struct {
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

// write writes the folders of all providers. Errors name the file or the flag that they are about.
func (o *options) write() error {
	if o.out == "" {
		return errors.New("--out is missing: it must be a folder")
	}
	old, err := o.complete()
	if err != nil {
		return err
	}
	metadata, err := os.ReadFile(filepath.Join(o.root, "config", "metadata.yaml"))
	if err != nil {
		return err
	}
	if err := released(metadata, o.version); err != nil {
		return err
	}
	images, err := o.readUpgraders()
	if err != nil {
		return err
	}
	for _, p := range providers {
		components, err := render(filepath.Join(o.root, "config", "clusterctl", p.Folder))
		if err != nil {
			return err
		}
		components = bytes.ReplaceAll(components, []byte("image: "+old+"\n"), []byte("image: "+o.image+":"+o.version+"\n"))
		upgraders, err := p.upgraders(images)
		if err != nil {
			return err
		}
		components = append(components, upgraders...)
		if err := p.write(filepath.Join(o.out, p.label(), o.version), components, metadata); err != nil {
			return err
		}
	}
	return nil
}

func (p provider) write(folder string, components, metadata []byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, p.Components), components, 0o644),
		os.WriteFile(filepath.Join(folder, "metadata.yaml"), metadata, 0o644),
	)
}

// complete fills in what the command line leaves out, and returns the image that config/manager names.
func (o *options) complete() (string, error) {
	file := filepath.Join(o.root, "config", "manager", "kustomization.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var n named
	if err := yaml.Unmarshal(data, &n); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	if len(n.Images) != 1 {
		return "", fmt.Errorf("%s: images has %d entries, one is needed", file, len(n.Images))
	}
	if o.image == "" {
		o.image = n.Images[0].NewName
	}
	if o.version == "" {
		o.version = n.Images[0].NewTag
	}
	return n.Images[0].NewName + ":" + n.Images[0].NewTag, nil
}

// released returns an error unless the metadata say which contract a version keeps.
func released(metadata []byte, version string) error {
	if len(version) == 0 || version[0] != 'v' {
		return fmt.Errorf("--version=%s: it must be a semantic version behind a v, such as v0.1.0", version)
	}
	v, err := semver.Parse(version[1:])
	if err != nil {
		return fmt.Errorf("--version=%s: it must be a semantic version behind a v, such as v0.1.0: %w", version, err)
	}
	var m clusterctlv1.Metadata
	if err := yaml.UnmarshalStrict(metadata, &m); err != nil {
		return fmt.Errorf("reading config/metadata.yaml: %w", err)
	}
	for _, s := range m.ReleaseSeries {
		if uint64(s.Major) == v.Major && uint64(s.Minor) == v.Minor {
			return nil
		}
	}
	return fmt.Errorf("--version=%s: config/metadata.yaml has no release series %d.%d: add it with its contract", version, v.Major, v.Minor)
}

// render returns what `kubectl kustomize` prints for a folder.
func render(folder string) ([]byte, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	return all.AsYaml()
}
