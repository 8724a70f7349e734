// Package artifacts makes everything that runs on a machine and in the management plane, from pinned sources, and keeps it
// in a cache. That is Kubernetes, etcd, containerd, CNI plugins, CoreDNS, a pause program, and container images of them under the
// names that kubeadm expects. It also makes the manifests of Cluster API, and the providers that make a cluster a management cluster.
//
// It knows how each of these is built and laid out. It does not know what a machine or a management plane does with
// them. The pins are in the package artifacts at the root of the module; the cache is the package cache below.
//
// The versions of images in their names are kubeadm's; what is inside is of the versions pinned here.
package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// Options say where artifacts are kept.
type Options struct {
	Cache    string         // folder; empty means QUORATE_CACHE, or quorate in the user's cache folder
	Prebuilt string         // folder with the layout of a cache from which everything is taken; empty means QUORATE_ARTIFACTS
	Progress func(Progress) // may be nil; calls do not overlap
	// Made are sets of earlier builds. Those of versions that are not pinned any more stay usable while they are there.
	Made []Set
	// Bundle is imported before anything that it may have is built; nil: there is none. Prebuilt comes before it.
	Bundle *Bundle
}

// Progress tells that something happened to one product.
type Progress = cache.Progress

// ErrDiskFull is wrapped by errors about too little disk space.
var ErrDiskFull = cache.ErrDiskFull

// Set is everything for one version of Kubernetes, or for machines of etcd. All fields but the first are absolute paths.
type Set struct {
	Kubernetes string `json:"kubernetes"` // v1.36.3
	Management string `json:"management"` // folder: etcd, kube-apiserver, kube-controller-manager, kubectl
	Machine    string `json:"machine"`    // folder: kubelet, kubeadm, kubectl, containerd, containerd-shim-runc-v2, ctr, etcdctl, etcdutl
	CNI        string `json:"cni"`        // folder: bridge, host-local, loopback, portmap, ptp
	// Etcd is the folder of machines that run nothing but etcd: bin/etcdadm, and cache/, which is etcdadm's cache with an archive of
	// each version of etcd. Only sets of EnsureEtcd have it, and nothing else.
	Etcd   string   `json:"etcd,omitempty"`
	Images []string `json:"images"` // files in the format of `docker save`, one image each
	// Store is the root folder of a containerd that has all Images in its namespace k8s.io, unpacked and pinned. It may
	// be copied with hard links, but for the *.db files, which must be copied whole; manifest.json is not part of it.
	// Empty if it was not made: only root can, and not on every file system.
	Store string `json:"store,omitempty"`
	CRDs  string `json:"crds"` // folder: core/ and bootstrap/, each with crd/, webhook/, rbac/ as in Cluster API's config/
}

// CacheFolder returns the folder in which artifacts are kept.
func (o Options) CacheFolder() (string, error) {
	folder := o.Cache
	if folder == "" {
		folder = os.Getenv("QUORATE_CACHE")
	}
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("choosing a folder for artifacts: set QUORATE_CACHE: %w", err)
		}
		folder = filepath.Join(user, "quorate")
	}
	return filepath.Abs(folder)
}

func (o Options) open() (*cache.Cache, error) {
	root, err := o.CacheFolder()
	if err != nil {
		return nil, err
	}
	prebuilt := o.Prebuilt
	if prebuilt == "" {
		prebuilt = os.Getenv("QUORATE_ARTIFACTS")
	}
	if prebuilt != "" {
		if prebuilt, err = filepath.Abs(prebuilt); err != nil {
			return nil, err
		}
	}
	return cache.Open(root, prebuilt, o.Progress)
}

// Ensure returns the artifacts of one version of Kubernetes, and builds what is missing. It may be called by several
// processes at once. A version that is neither pinned nor made earlier is an error that lists those that can be had.
func Ensure(ctx context.Context, o Options, kubernetesVersion string) (*Set, error) {
	version, err := o.known(kubernetesVersion)
	if err != nil {
		return nil, err
	}
	if made := o.made(version); made != nil && !pinned(version) {
		return o.refresh(ctx, made)
	}
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	m, err := newMaker(ctx, c, version)
	if err != nil {
		return nil, err
	}
	if err := o.fromBundle(ctx, c, m.products()); err != nil {
		return nil, err
	}
	if err := m.sources(ctx); err != nil {
		return nil, err
	}
	return m.set(ctx)
}

// Missing returns the names of the products that Ensure would have to build, without looking into those that are there.
func Missing(ctx context.Context, o Options, kubernetesVersion string) ([]string, error) {
	version, err := o.known(kubernetesVersion)
	if err != nil {
		return nil, err
	}
	if !pinned(version) {
		return nil, nil
	}
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	m, err := newMaker(ctx, c, version)
	if err != nil {
		return nil, err
	}
	return lacking(c, m.products()), nil
}

// lacking returns the names of the products that a cache does not have, without looking into those that it has.
func lacking(c *cache.Cache, products []cache.Product) []string {
	var names []string
	for _, p := range products {
		if !c.Have(p) {
			names = append(names, p.String())
		}
	}
	return names
}

// known returns a version as the pins, or a set of the past, write it.
func (o Options) known(version string) (string, error) {
	versions := o.Versions()
	for _, v := range versions {
		if strings.TrimPrefix(version, "v") == strings.TrimPrefix(v, "v") {
			return v, nil
		}
	}
	return "", fmt.Errorf("kubernetes version %q: cannot be had, only %s", version, strings.Join(versions, ", "))
}

func pinned(version string) bool { return slices.Contains(Versions(), version) }

// maker makes the products of one version of Kubernetes.
type maker struct {
	cache   *cache.Cache
	tools   toolchain
	version string
	built   map[string]cache.Product // the leaves, by name
	folders map[string]string        // of the leaves, by name, once they are ensured
}

func newMaker(ctx context.Context, c *cache.Cache, version string) (*maker, error) {
	tools := findToolchain(ctx)
	m := &maker{cache: c, tools: tools, version: version, built: map[string]cache.Product{}, folders: map[string]string{}}
	for _, component := range components(version) {
		product, err := component.product(tools)
		if err != nil {
			return nil, err
		}
		m.built[product.Name] = product
	}
	m.built["pause"] = pauseProduct(tools)
	product, err := clusterAPIProduct(tools)
	if err != nil {
		return nil, err
	}
	m.built["cluster-api"] = product
	return m, nil
}

// leaves returns the products that depend on no other, the one that takes longest first.
func (m *maker) leaves() []cache.Product {
	var products []cache.Product
	for _, name := range []string{"kubernetes", "coredns", "containerd", etcdOf(m.version), "cni", "pause", "cluster-api"} {
		products = append(products, m.built[name])
	}
	return products
}

// products returns all that must be there; the store only saves time.
func (m *maker) products() []cache.Product {
	return append(m.leaves(), m.images(), m.machine(), m.management())
}

// sources ensures all leaves. Two at a time: while one fetches modules or links, the other compiles.
func (m *maker) sources(ctx context.Context) error {
	return m.ensure(ctx, m.leaves())
}

func (m *maker) ensure(ctx context.Context, leaves []cache.Product) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	folders := make([]string, len(leaves))
	for i, leaf := range leaves {
		group.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			folders[i], err = m.cache.Ensure(ctx, leaf)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, leaf := range leaves {
		m.folders[leaf.Name] = folders[i]
	}
	return nil
}

// set ensures what is made of the leaves.
func (m *maker) set(ctx context.Context) (*Set, error) {
	set := &Set{Kubernetes: m.version, CNI: m.folders["cni"], CRDs: m.folders["cluster-api"]}
	var err error
	if set.Management, err = m.cache.Ensure(ctx, m.management()); err != nil {
		return nil, err
	}
	if set.Machine, err = m.cache.Ensure(ctx, m.machine()); err != nil {
		return nil, err
	}
	images, err := m.cache.Ensure(ctx, m.images())
	if err != nil {
		return nil, err
	}
	if set.Images, err = filepath.Glob(filepath.Join(images, "*.tar")); err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	if set.Store, err = m.storeIfPossible(ctx, set.Images); err != nil {
		return nil, err
	}
	return set, nil
}

// collection returns a product of hard links to programs of leaves: name of the leaf -> programs.
func (m *maker) collection(name string, from map[string][]string) cache.Product {
	p := cache.Product{Name: name, Version: m.version, Inputs: cache.Sum("collection", "1", fmt.Sprint(from))}
	for _, leaf := range sortedKeys(from) {
		p = dependOn(p, m.built[leaf])
	}
	p.Build = func(_ context.Context, w cache.Workplace) error {
		for leaf, programs := range from {
			for _, program := range programs {
				if err := link(filepath.Join(m.folders[leaf], program), filepath.Join(w.Out, program)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return p
}

func (m *maker) management() cache.Product {
	return m.collection("management", map[string][]string{
		etcdOf(m.version): {"etcd"},
		"kubernetes":      {"kube-apiserver", "kube-controller-manager", "kubectl"},
	})
}

// onMachines are the programs of machines of a version of Kubernetes, by the product that they come from.
func onMachines(kubernetes string) map[string][]string {
	return map[string][]string{
		"kubernetes":       {"kubelet", "kubeadm", "kubectl"},
		"containerd":       {"containerd", "containerd-shim-runc-v2", "ctr"},
		etcdOf(kubernetes): {"etcdctl", "etcdutl"},
	}
}

// MachinePrograms are the names of the programs that machines have beside those of their host.
func MachinePrograms() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, programs := range onMachines(DefaultVersion) {
			for _, p := range programs {
				if !yield(p) {
					return
				}
			}
		}
	})
}

func (m *maker) machine() cache.Product { return m.collection("machine", onMachines(m.version)) }

// dependOn adds another product to what p is made of.
func dependOn(p, other cache.Product) cache.Product {
	p.Inputs = cache.Sum(string(p.Inputs), other.Name, string(other.Inputs))
	p.Host = cache.Sum(string(p.Host), other.Name, string(other.Host))
	p.HostErr = errors.Join(p.HostErr, other.HostErr)
	return p
}
