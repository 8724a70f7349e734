package artifacts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// A component is built from the Go module proxy: programs of one pinned module.
type component struct {
	name    string                                 // of the product
	folder  string                                 // of the pins
	module  string                                 // whose version is the component's
	rename  map[string]string                      // programs that upstream calls otherwise than Go does
	names   map[string]string                      // names of all programs by package, where Go gives two of them the same one
	stamp   func(version string) map[string]string // variables that say the version, to be set by the linker
	size    uint64                                 // bytes of the programs, roughly
	compile uint64                                 // bytes that Go's caches grow by, roughly, when they are empty
}

// recipe changes when the way components are built does.
const recipe = "2"

func components(kubernetes string) []component {
	const mib = 1 << 20
	return []component{
		{name: "kubernetes", folder: kubernetesPrefix + kubernetes, module: "k8s.io/kubernetes", stamp: kubernetesStamp, size: 600 * mib,
			compile: 2500 * mib},
		{name: "etcd", folder: "etcd", module: etcdModule, rename: etcdNames, size: 64 * mib, compile: 500 * mib},
		{name: "etcd-3.7", folder: "etcd-3.7", module: etcdModule, rename: etcdNames, size: 64 * mib, compile: 500 * mib},
		{name: "etcd-3.5", folder: "etcd-3.5", module: etcdModule, rename: etcdNames, size: 40 * mib, compile: 400 * mib},
		{name: "etcdadm", folder: "etcdadm", module: "sigs.k8s.io/etcdadm", size: 16 * mib, compile: 100 * mib},
		{name: "containerd", folder: "containerd", module: "github.com/containerd/containerd/v2", stamp: containerdStamp, size: 80 * mib,
			compile: 700 * mib},
		{name: "cni", folder: "cni", module: "github.com/containernetworking/plugins", stamp: pluginsStamp, size: 20 * mib, compile: 100 * mib},
		{name: "coredns", folder: "coredns", module: "github.com/coredns/coredns", size: 50 * mib, compile: 400 * mib},
		{name: clusterAPIPrograms, folder: "cluster-api", module: clusterAPIModule, names: clusterAPINames, stamp: clusterAPIStamp,
			size: 350 * mib, compile: 1500 * mib},
		{name: "cert-manager", folder: "cert-manager", module: certManagerModule, stamp: certManagerStamp, size: 200 * mib, compile: 800 * mib},
		{name: "helm", folder: "helm", module: "helm.sh/helm/v4", stamp: helmStamp, size: 80 * mib, compile: 800 * mib},
	}
}

// etcdModule is the module of etcd's server, whose program Go names by the folder.
const etcdModule = "go.etcd.io/etcd/server/v3"

var etcdNames = map[string]string{"server": "etcd"}

// firstEtcd37 is the first version of Kubernetes whose kubeadm asks for etcd 3.7.
var firstEtcd37 = version.Version{Major: 1, Minor: 37}

// etcdOf returns the name of the etcd component that control planes of a version of Kubernetes run: it has the minor version that
// kubeadm asks for.
func etcdOf(kubernetes string) string {
	if v, err := version.Parse(kubernetes); err == nil && version.CompareMinor(v, firstEtcd37) >= 0 {
		return "etcd-3.7"
	}
	return "etcd"
}

func kubernetesStamp(version string) map[string]string {
	const variables = "k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return map[string]string{
		variables + "gitVersion":                  version,
		variables + "gitMajor":                    parts[0],
		variables + "gitMinor":                    parts[1],
		variables + "gitTreeState":                "clean",
		"k8s.io/client-go/pkg/version.gitVersion": version,
	}
}

func clusterAPIStamp(version string) map[string]string {
	const variables = clusterAPIModule + "/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return map[string]string{
		variables + "gitVersion": version, variables + "gitMajor": parts[0], variables + "gitMinor": parts[1],
		variables + "gitTreeState": "clean",
	}
}

func certManagerStamp(version string) map[string]string {
	return map[string]string{certManagerModule + "/pkg/util.AppVersion": version}
}

func helmStamp(version string) map[string]string {
	return map[string]string{"helm.sh/helm/v4/internal/core/version.version": version}
}

func containerdStamp(version string) map[string]string {
	return map[string]string{"github.com/containerd/containerd/v2/version.Version": version}
}

func pluginsStamp(version string) map[string]string {
	return map[string]string{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": version}
}

// product returns the product of a component, built by a toolchain.
func (c component) product(tools toolchain) (cache.Product, error) {
	p, err := readPin(c.folder)
	if err != nil {
		return cache.Product{}, err
	}
	version, err := p.version(c.module)
	if err != nil {
		return cache.Product{}, fmt.Errorf("%s: %w", c.name, err)
	}
	flags := c.flags(version)
	needs := []cache.Need{{Bytes: c.size}}
	for _, folder := range tools.caches {
		needs = append(needs, cache.Need{Folder: folder, Bytes: c.compile / uint64(len(tools.caches))})
	}
	return cache.Product{
		Name: c.name, Version: version,
		Inputs: c.inputs(p, flags),
		Host:   tools.digest, HostErr: tools.err,
		Needs: needs,
		Build: func(ctx context.Context, w cache.Workplace) error {
			if len(c.names) > 0 {
				return buildNamed(ctx, tools, w, p, flags, c.names)
			}
			if err := buildPrograms(ctx, tools, w, p, flags); err != nil {
				return err
			}
			for from, to := range c.rename {
				if err := os.Rename(filepath.Join(w.Out, from), filepath.Join(w.Out, to)); err != nil {
					return fmt.Errorf("renaming a program: %w", err)
				}
			}
			return nil
		},
	}, nil
}

// inputs is the digest of all that decides what the programs are, but the toolchain.
func (c component) inputs(p pin, flags []string) cache.Digest {
	parts := []string{"component", recipe, p.mod, p.sum, fmt.Sprint(flags), fmt.Sprint(c.rename)}
	if len(c.names) > 0 {
		parts = append(parts, fmt.Sprint(c.names))
	}
	return p.digest(parts...)
}

// compiled has debugging data not even written by the compiler, where the linker leaves it out: that spares a fifth of the work. Go's own
// packages are as everybody has them. The Makefile builds Quorate's programs in the same way, so that what both are made of is compiled
// once.
var compiled = []string{"-gcflags=all=-dwarf=false", "-gcflags=std="}

// flags are those of `go build`.
func (c component) flags(version string) []string {
	return append([]string{"-ldflags", c.linkerFlags(version)}, compiled...)
}

// linkerFlags leave out symbols and debugging data, and put in the version.
func (c component) linkerFlags(version string) string {
	flags := "-s -w"
	if c.stamp == nil {
		return flags
	}
	values := c.stamp(version)
	for _, variable := range sortedKeys(values) {
		flags += " -X " + variable + "=" + values[variable]
	}
	return flags
}

// buildPrograms builds every tool of a pinned module. One call for all of them shares what they have in common, and links
// one while it compiles another.
func buildPrograms(ctx context.Context, tools toolchain, w cache.Workplace, p pin, flags []string) error {
	if err := writeModule(w.Work, p); err != nil {
		return err
	}
	arguments := append([]string{"build", "-v", "-buildvcs=false", "-o", w.Out + string(filepath.Separator)}, flags...)
	var packages, programs []string
	for _, tool := range p.directives("tool") {
		packages = append(packages, tool[0])
		programs = append(programs, program(tool[0]))
	}
	total := toCompile(ctx, tools, w, flags, packages)
	if _, err := tools.run(ctx, w.Work, narrate(w.Report, total), append(arguments, packages...)...); err != nil {
		return err
	}
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(w.Out, name)); err != nil {
			return fmt.Errorf("go build made no %s: %w", name, err)
		}
	}
	return nil
}

// buildNamed builds the tools of a pinned module one after the other, each to the file that names has for it.
func buildNamed(ctx context.Context, tools toolchain, w cache.Workplace, p pin, flags []string, names map[string]string) error {
	if err := writeModule(w.Work, p); err != nil {
		return err
	}
	for _, tool := range p.directives("tool") {
		name, known := names[tool[0]]
		if !known {
			return fmt.Errorf("the program %s has no name: add it", tool[0])
		}
		arguments := append([]string{"build", "-v", "-buildvcs=false", "-o", filepath.Join(w.Out, name)}, flags...)
		arguments = append(arguments, tool[0])
		if _, err := tools.run(ctx, w.Work, narrate(w.Report, 0), arguments...); err != nil {
			return err
		}
	}
	return nil
}

func writeModule(folder string, p pin) error {
	files := map[string]string{"go.mod": p.mod, "go.sum": p.sum}
	maps.Copy(files, p.sources)
	for name, text := range files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the pins: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the pins: %w", err)
		}
	}
	return nil
}

// narrate turns what `go build -v` prints, a line for each module it fetches and each package it compiles, into a
// sentence now and then. Total is how many packages there are to compile; 0: that is not known.
func narrate(report func(string, ...any), total int) func(string) {
	var last time.Time
	begun := time.Now()
	fetched, compiled := 0, 0
	return func(line string) {
		module, isModule := strings.CutPrefix(line, "go: downloading ")
		if isModule {
			fetched++
		} else {
			compiled++
		}
		if time.Since(last) < time.Second && compiled != total {
			return
		}
		last = time.Now()
		switch {
		case isModule:
			report("%d modules fetched, now %s", fetched, module)
		case total == 0:
			report("%d packages compiled", compiled)
		case compiled >= total:
			report("all %d packages compiled, linking", total)
		default:
			report("%d of %d packages compiled%s", compiled, total, timeLeft(time.Since(begun), compiled, total))
		}
	}
}

// leastCompiled is how many packages must be compiled before their time says something of the others'.
const leastCompiled = 20

// timeLeft says how long the rest of some packages takes, as the end of a sentence; empty: too little is known.
func timeLeft(took time.Duration, compiled, total int) string {
	if compiled < leastCompiled {
		return ""
	}
	left := took * time.Duration(total-compiled) / time.Duration(compiled)
	return fmt.Sprintf(", about %s left", left.Round(time.Second))
}

// toCompile counts the packages of programs that Go has to compile. It fetches the modules that they need, which the build needs as well.
func toCompile(ctx context.Context, tools toolchain, w cache.Workplace, flags, programs []string) int {
	arguments := append([]string{"list", "-deps", "-buildvcs=false", "-f", "{{if .StaleReason}}{{.ImportPath}}{{end}}"}, flags...)
	output, err := tools.run(ctx, w.Work, narrate(w.Report, 0), append(arguments, programs...)...)
	if err != nil {
		return 0 // the build meets the same, and says it
	}
	return len(strings.Fields(string(output)))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
