package selfmanaged

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/local/artifacts"
)

// isNoKind reports whether a kind is not served.
func isNoKind(err error) bool { return meta.IsNoMatchError(err) }

// component is a provider that clusterctl installs.
type component struct {
	name, kind string
	// flag chooses it at `clusterctl init`.
	flag string
	// folder and file are where its components lie in a repository.
	folder, file string
	// source is the folder of Quorate's own below config/clusterctl; empty: upstream's.
	source string
}

// wanted are all that a management cluster of local machines needs.
var wanted = []component{
	{"cluster-api", "CoreProvider", "core", "cluster-api", "core-components.yaml", ""},
	{"kubeadm", "BootstrapProvider", "bootstrap", "bootstrap-kubeadm", "bootstrap-components.yaml", ""},
	{"quorate", "BootstrapProvider", "bootstrap", "bootstrap-quorate", "bootstrap-components.yaml", "bootstrap"},
	{"quorate", "ControlPlaneProvider", "control-plane", "control-plane-quorate", "control-plane-components.yaml", "control-plane"},
	{"quorate", "InfrastructureProvider", "infrastructure", "infrastructure-quorate", "infrastructure-components.yaml", "infrastructure"},
}

// configuration is clusterctl's configuration file.
type configuration struct {
	Providers   []source `json:"providers"`
	CertManager struct {
		URL     string `json:"url"`
		Version string `json:"version"`
	} `json:"cert-manager"`
}

type source struct {
	Name string `json:"name"`
	Type string `json:"type"`
	URL  string `json:"url"`
}

// named is what a kustomization says of images.
type named struct {
	Images []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

// folder is where clusterctl's configuration and log lie, and the components of Quorate's own providers.
func (r *run) folder() string { return filepath.Join(r.Daemon.State, "management", "clusterctl") }

// writeRepository writes the components of Quorate's own providers, and clusterctl's configuration for all.
func (r *run) writeRepository(ctx context.Context) error {
	// Of another build of this program.
	if err := os.RemoveAll(r.folder()); err != nil {
		return fmt.Errorf("emptying clusterctl's folder: %w", err)
	}
	sources := filepath.Join(r.folder(), "config")
	version, err := r.writeSources(sources)
	if err != nil {
		return err
	}
	all := configuration{}
	for _, w := range wanted {
		url, err := r.componentsOf(ctx, w, sources, version)
		if err != nil {
			return err
		}
		all.Providers = append(all.Providers, source{w.name, w.kind, url})
	}
	const certManager = "cert-manager"
	if all.CertManager.URL, err = only(filepath.Join(r.providers.Repository, certManager), certManager+".yaml"); err != nil {
		return err
	}
	all.CertManager.Version = filepath.Base(filepath.Dir(all.CertManager.URL))
	return r.writeConfiguration(all)
}

// componentsOf is where a provider's components are found, written if they are Quorate's own.
func (r *run) componentsOf(ctx context.Context, w component, sources, version string) (url string, err error) {
	if w.source == "" {
		return only(filepath.Join(r.providers.Repository, w.folder), w.file)
	}
	components, err := r.kustomize(ctx, filepath.Join(sources, "clusterctl", w.source))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(r.folder(), "repository", w.folder, version)
	return "file://" + filepath.Join(folder, w.file), writeProvider(folder, w.file, components)
}

func (r *run) writeConfiguration(all configuration) error {
	data, err := yaml.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding clusterctl's configuration: %w", err)
	}
	if err := os.MkdirAll(r.folder(), 0o700); err != nil {
		return fmt.Errorf("making clusterctl's folder: %w", err)
	}
	return write(filepath.Join(r.folder(), "clusterctl.yaml"), data)
}

func write(file string, data []byte) error {
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("writing for clusterctl: %w", err)
	}
	return nil
}

func writeProvider(folder, file string, components []byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("making a folder for clusterctl: %w", err)
	}
	metadata, err := fs.ReadFile(config.Files, "metadata.yaml")
	if err != nil {
		return err
	}
	return errors.Join(write(filepath.Join(folder, file), components), write(filepath.Join(folder, "metadata.yaml"), metadata))
}

// only is the URL of a file of the only version that a folder of a repository has.
func only(folder, file string) (string, error) {
	found, err := filepath.Glob(filepath.Join(folder, "*", file))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: %d versions of %s, one is needed", folder, len(found), file)
	}
	return "file://" + found[0], nil
}

// writeSources writes Quorate's manifests with the images that were made here, of the manager and of the upgrader, and returns their
// version.
func (r *run) writeSources(folder string) (version string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for clusterctl: %w", err)
	}
	if err := os.CopyFS(folder, config.Files); err != nil {
		return "", fmt.Errorf("writing Quorate's manifests: %w", err)
	}
	file := filepath.Join(folder, "manager", "kustomization.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading Quorate's manifests: %w", err)
	}
	var names named
	if err := yaml.Unmarshal(data, &names); err != nil || len(names.Images) != 1 {
		return "", fmt.Errorf("%s names %d images, one is needed: %w", file, len(names.Images), err)
	}
	was := names.Images[0]
	name, tag, _ := strings.Cut(r.image, ":")
	data = bytes.ReplaceAll(data, []byte("newName: "+was.NewName), []byte("newName: "+name))
	data = bytes.ReplaceAll(data, []byte("newTag: "+was.NewTag), []byte("newTag: "+tag))
	return was.NewTag, errors.Join(write(file, data), writeUpgrader(filepath.Join(folder, "clusterctl", "control-plane", "arguments.yaml")))
}

// writeUpgrader adds the image that upgrades local machines in place to the manager's arguments.
func writeUpgrader(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading Quorate's manifests: %w", err)
	}
	const argument = "        - --providers=control-plane\n"
	if n := bytes.Count(data, []byte(argument)); n != 1 {
		return fmt.Errorf("%s has the argument --providers=control-plane %d times: must be once", file, n)
	}
	return write(file, bytes.ReplaceAll(data, []byte(argument), []byte(argument+"        - --upgrader-image="+artifacts.UpgraderImage+
		":%s\n")))
}

// kustomize renders a folder.
func (r *run) kustomize(ctx context.Context, folder string) ([]byte, error) {
	var failure bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(r.environment.Artifacts.Management, "kubectl"), "kustomize", folder)
	cmd.Stderr = &failure
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w: %s", folder, err, strings.TrimSpace(failure.String()))
	}
	return output, nil
}

// features are Cluster API's as the host's management plane has them.
func (r *run) features() []string {
	features := []string{"CLUSTER_TOPOLOGY=true"}
	if r.environment.RuntimeExtensions {
		features = append(features, "EXP_RUNTIME_SDK=true", "EXP_IN_PLACE_UPDATES=true")
	}
	return features
}

// clusterctl runs it. What it says goes into a log beside its configuration, and the end of it into the error.
func (r *run) clusterctl(ctx context.Context, arguments ...string) error {
	folder := r.folder()
	if _, err := os.Stat(filepath.Join(folder, "clusterctl.yaml")); errors.Is(err, fs.ErrNotExist) {
		if err := r.writeConfiguration(configuration{}); err != nil {
			return err
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, r.providers.Clusterctl, append(arguments, "--config", filepath.Join(folder, "clusterctl.yaml"), "--v",
		"2")...)
	cmd.Dir = folder
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "XDG_CONFIG_HOME=" + folder,
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true"}, r.features()...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	if saved := write(filepath.Join(folder, "clusterctl-"+arguments[0]+".log"), said.Bytes()); err == nil {
		return saved
	}
	text := strings.TrimSpace(said.String())
	return fmt.Errorf("clusterctl %s: %w: %s", arguments[0], err, text[max(0, len(text)-2000):])
}
