package artifacts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/artifacts/image"
)

// Providers is what makes a cluster a management cluster: cert-manager, Cluster API's own providers, and the programs that
// install them. All fields are absolute paths.
type Providers struct {
	Clusterctl string   `json:"clusterctl"` // program
	Helm       string   `json:"helm"`       // program
	Images     []string `json:"images"`     // files in the format of `docker save`, one image each
	// Repository is a folder as clusterctl reads it: cluster-api/, bootstrap-kubeadm/ and control-plane-kubeadm/, each with VERSION/
	// with components and metadata.yaml, and cert-manager/VERSION/cert-manager.yaml.
	Repository string `json:"repository"`
	// ClusterAPI and CertManager are versions, each with a leading v. Clusterctl must be told that of cert-manager, or looks for another one.
	ClusterAPI  string `json:"clusterAPI"`
	CertManager string `json:"certManager"`
}

const (
	clusterAPIPrograms = "cluster-api-programs"
	certManagerModule  = "github.com/cert-manager/cert-manager"
	// nonroot is the user and the group of providers.
	nonroot = "65532:65532"
)

// clusterAPINames are Cluster API's programs. Kustomize is what renders its manifests.
var clusterAPINames = map[string]string{
	clusterAPIModule + "/cmd/clusterctl":       "clusterctl",
	clusterAPIModule + "/core":                 "core",
	clusterAPIModule + "/bootstrap/kubeadm":    "bootstrap-kubeadm",
	clusterAPIModule + "/controlplane/kubeadm": "control-plane-kubeadm",
	"sigs.k8s.io/kustomize/kustomize/v5":       "kustomize",
}

// providerImage is the image of one program. Its tag is the version of the product that has the program.
type providerImage struct {
	name    string // as the manifests have it, without the tag
	leaf    string // the product
	program string
	path    string // of the program in the image; Cluster API's manifests call it by path
}

var providerImages = []providerImage{
	{"registry.k8s.io/cluster-api/cluster-api-controller", clusterAPIPrograms, "core", "/manager"},
	{"registry.k8s.io/cluster-api/kubeadm-bootstrap-controller", clusterAPIPrograms, "bootstrap-kubeadm", "/manager"},
	{"registry.k8s.io/cluster-api/kubeadm-control-plane-controller", clusterAPIPrograms, "control-plane-kubeadm", "/manager"},
	{"quay.io/jetstack/cert-manager-controller", "cert-manager", "controller", "/controller"},
	{"quay.io/jetstack/cert-manager-webhook", "cert-manager", "webhook", "/webhook"},
	{"quay.io/jetstack/cert-manager-cainjector", "cert-manager", "cainjector", "/cainjector"},
}

// providerManifests are the manifests in clusterctl's repository that Cluster API's module has the sources of.
var providerManifests = []struct{ label, folder, file string }{
	{"cluster-api", "core/config/default", "core-components.yaml"},
	{"bootstrap-kubeadm", "bootstrap/kubeadm/config/default", "bootstrap-components.yaml"},
	{"control-plane-kubeadm", "controlplane/kubeadm/config/default", "control-plane-components.yaml"},
}

// EnsureProviders returns what makes a cluster a management cluster, and builds what is missing. It may be called by several processes at
// once.
func EnsureProviders(ctx context.Context, o Options) (*Providers, error) {
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	m, err := newMaker(ctx, c, DefaultVersion)
	if err != nil {
		return nil, err
	}
	if err := o.fromBundle(ctx, c, m.providers()); err != nil {
		return nil, err
	}
	if err := m.ensure(ctx, m.providerLeaves()); err != nil {
		return nil, err
	}
	images, err := c.Ensure(ctx, m.providerImages())
	if err != nil {
		return nil, err
	}
	p := &Providers{
		Clusterctl: filepath.Join(m.folders[clusterAPIPrograms], "clusterctl"), Helm: filepath.Join(m.folders["helm"], "helm"),
		ClusterAPI: m.built[clusterAPIPrograms].Version, CertManager: m.built["cert-manager"].Version,
	}
	if p.Images, err = filepath.Glob(filepath.Join(images, "*.tar")); err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	p.Repository, err = c.Ensure(ctx, m.providerRepository())
	return p, err
}

// MissingProviders returns the names of the products that EnsureProviders would have to build, without looking into those that are there.
func MissingProviders(ctx context.Context, o Options) ([]string, error) {
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	products, err := providers(ctx, c)
	if err != nil {
		return nil, err
	}
	return lacking(c, products), nil
}

// providers returns the products of EnsureProviders. They are the same for all versions of Kubernetes.
func providers(ctx context.Context, c *cache.Cache) ([]cache.Product, error) {
	m, err := newMaker(ctx, c, DefaultVersion)
	if err != nil {
		return nil, err
	}
	return m.providers(), nil
}

func (m *maker) providers() []cache.Product {
	return append(m.providerLeaves(), m.providerImages(), m.providerRepository())
}

// providerLeaves are the products that depend on no other, the one that takes longest first.
func (m *maker) providerLeaves() []cache.Product {
	return []cache.Product{m.built[clusterAPIPrograms], m.built["cert-manager"], m.built["helm"]}
}

func (i providerImage) tagged(m *maker) string { return i.name + ":" + m.built[i.leaf].Version }

// providerImages is the product of all images of providers.
func (m *maker) providerImages() cache.Product {
	p := cache.Product{
		Name: "provider-images", Version: m.built[clusterAPIPrograms].Version,
		Inputs: cache.Sum("provider-images", "1", fmt.Sprint(providerImages), fmt.Sprint(common), nonroot),
		Needs:  []cache.Need{{Bytes: 300 << 20}},
	}
	p = dependOn(dependOn(p, m.built[clusterAPIPrograms]), m.built["cert-manager"])
	p.Build = func(ctx context.Context, w cache.Workplace) error {
		for _, i := range providerImages {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.Report("writing %s", i.tagged(m))
			program := image.File{Path: i.path, Source: filepath.Join(m.folders[i.leaf], i.program), Mode: 0o755}
			err := image.Write(filepath.Join(w.Out, filepath.Base(i.name)+".tar"), w.Work, image.Image{
				Name: i.tagged(m), Entrypoint: []string{i.path}, User: nonroot, Files: append([]image.File{program}, common...),
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return p
}

// providerRepository is the product of clusterctl's local repository.
func (m *maker) providerRepository() cache.Product {
	p := cache.Product{
		Name: "provider-repository", Version: m.built[clusterAPIPrograms].Version,
		Inputs: cache.Sum("provider-repository", "1", fmt.Sprint(providerManifests), fmt.Sprint(providerImages), certManagerNamespace,
			fmt.Sprint(certManagerValues)),
		Needs: []cache.Need{{Bytes: 16 << 20}},
	}
	for _, leaf := range m.providerLeaves() {
		p = dependOn(p, leaf)
	}
	p.Build = func(ctx context.Context, w cache.Workplace) error {
		components, err := m.clusterAPIComponents(ctx, w)
		if err != nil {
			return err
		}
		certManager, err := m.certManagerManifest(ctx, w)
		if err != nil {
			return err
		}
		return m.checkImages(append(components, certManager))
	}
	return p
}

// clusterAPIComponents writes the components of Cluster API's providers as its releases have them, and returns them.
func (m *maker) clusterAPIComponents(ctx context.Context, w cache.Workplace) ([][]byte, error) {
	source, version, err := m.source(ctx, w, "cluster-api", clusterAPIModule)
	if err != nil {
		return nil, err
	}
	metadata, err := os.ReadFile(filepath.Join(source, "metadata.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the contracts of Cluster API's versions: %w", err)
	}
	var all [][]byte
	for _, p := range providerManifests {
		w.Report("rendering %s", p.file)
		cmd := exec.CommandContext(ctx, filepath.Join(m.folders[clusterAPIPrograms], "kustomize"), "build",
			filepath.Join(source, filepath.FromSlash(p.folder)))
		components, err := outputOf(cmd)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", p.file, err)
		}
		components = released(components, version)
		folder := filepath.Join(w.Out, p.label, version)
		if err := writeFiles(folder, map[string][]byte{p.file: components, "metadata.yaml": metadata}); err != nil {
			return nil, err
		}
		all = append(all, components)
	}
	return all, nil
}

var (
	stagedImage = regexp.MustCompile(`(image: )gcr\.io/k8s-staging-cluster-api/([a-z-]+):main\n`)
	alwaysPull  = regexp.MustCompile(`(imagePullPolicy: )Always\n`)
)

// released gives components of a source tree the images of a release.
func released(components []byte, version string) []byte {
	components = stagedImage.ReplaceAll(components, []byte("${1}registry.k8s.io/cluster-api/${2}:"+version+"\n"))
	return alwaysPull.ReplaceAll(components, []byte("${1}IfNotPresent\n"))
}

// certManagerNamespace is where cert-manager is installed; its chart leaves this to Helm.
const certManagerNamespace = `apiVersion: v1
kind: Namespace
metadata:
  name: cert-manager
---
`

// certManagerValues are what the chart's values are for manifests that are installed without Helm. The job that checks the
// installation is missing: clusterctl checks it itself.
// It runs on machines of the control plane too: a cluster that keeps itself may have no others.
var certManagerValues = append([]string{"creator=static", "crds.enabled=true", "crds.keep=false", "startupapicheck.enabled=false"},
	tolerated("", "webhook.", "cainjector.")...)

// tolerated are values that let parts of the chart run on machines of a control plane.
func tolerated(parts ...string) []string {
	var values []string
	for _, part := range parts {
		values = append(values, part+"tolerations[0].key=node-role.kubernetes.io/control-plane", part+"tolerations[0].effect=NoSchedule")
	}
	return values
}

// certManagerManifest writes what clusterctl installs as cert-manager, and returns it.
func (m *maker) certManagerManifest(ctx context.Context, w cache.Workplace) ([]byte, error) {
	source, version, err := m.source(ctx, w, "cert-manager", certManagerModule)
	if err != nil {
		return nil, err
	}
	w.Report("rendering cert-manager.yaml")
	chart := filepath.Join(source, "deploy", "charts", "cert-manager")
	if _, err := m.helm(ctx, w, "package", chart, "--version", version, "--app-version", version, "--destination", w.Work); err != nil {
		return nil, err
	}
	rendered, err := m.helm(ctx, w, "template", "cert-manager", filepath.Join(w.Work, "cert-manager-"+version+".tgz"),
		"--namespace", "cert-manager", "--set", strings.Join(certManagerValues, ","))
	if err != nil {
		return nil, err
	}
	manifest := append([]byte(certManagerNamespace), rendered...)
	return manifest, writeFiles(filepath.Join(w.Out, "cert-manager", version), map[string][]byte{"cert-manager.yaml": manifest})
}

// helm runs Helm without the user's settings, plugins and repositories, which it looks for in the home folder.
func (m *maker) helm(ctx context.Context, w cache.Workplace, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(m.folders["helm"], "helm"), arguments...)
	cmd.Env = []string{"HOME=" + w.Work}
	output, err := outputOf(cmd)
	if err != nil {
		return nil, fmt.Errorf("helm %s: %w", arguments[0], err)
	}
	return output, nil
}

// source returns the folder of a pinned module, and its version.
func (m *maker) source(ctx context.Context, w cache.Workplace, folder, module string) (source, version string, err error) {
	p, err := readPin(folder)
	if err != nil {
		return "", "", err
	}
	if version, err = p.version(module); err != nil {
		return "", "", err
	}
	source, err = fetch(ctx, m.tools, w, p, module+"@"+version)
	return source, version, err
}

func writeFiles(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a folder for manifests: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("writing manifests: %w", err)
		}
	}
	return nil
}

// checkImages returns an error unless manifests name just the images that are made here.
func (m *maker) checkImages(manifests [][]byte) error {
	var named, made []string
	for _, manifest := range manifests {
		named = append(named, imagesIn(manifest)...)
	}
	for _, i := range providerImages {
		made = append(made, i.tagged(m))
	}
	slices.Sort(named)
	slices.Sort(made)
	if named = slices.Compact(named); !slices.Equal(named, made) {
		return fmt.Errorf("the manifests name the images %s, but %s are made", strings.Join(named, ", "), strings.Join(made, ", "))
	}
	return nil
}

// imagesIn returns the images of containers in manifests: in schemas the field has no text.
func imagesIn(manifest []byte) []string {
	var images []string
	for line := range bytes.Lines(manifest) {
		text, isImage := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(string(line)), "- "), "image: ")
		if text = strings.Trim(text, `"'`); isImage && text != "" {
			images = append(images, text)
		}
	}
	return images
}
