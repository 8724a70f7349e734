package artifacts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"github.com/quorate/quorate/internal/artifacts/cache"
	"github.com/quorate/quorate/internal/artifacts/image"
)

// ImageBase is in every image: names of users, and the order in which names of hosts are looked up.
func ImageBase() []image.File { return slices.Clone(common) }

// UpgraderFolder is where upgraders' images have the programs of a version.
const UpgraderFolder = "/bin"

// PublishedUpgrader returns the programs, sorted by their names, that the upgrader's image of a pinned version of Kubernetes has in
// UpgraderFolder, for an architecture of Linux such as arm64. Unlike those of EnsureUpgrader, which stay on one host, they are the same
// wherever they are built: no path of the host is in them.
func PublishedUpgrader(ctx context.Context, o Options, kubernetes, arch string) ([]string, error) {
	version, err := o.known(kubernetes)
	if err != nil {
		return nil, err
	}
	if !pinned(version) {
		return nil, fmt.Errorf("kubernetes version %q: is not pinned any more", kubernetes)
	}
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	tools := findToolchain(ctx)
	tools.arch = arch
	var files []string
	for _, component := range components(version) {
		programs := component.ofUpgrader()
		if len(programs) == 0 {
			continue
		}
		p, err := component.published(tools, programs)
		if err != nil {
			return nil, err
		}
		folder, err := c.Ensure(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, program := range programs {
			files = append(files, filepath.Join(folder, program))
		}
	}
	sort.Slice(files, func(i, j int) bool { return filepath.Base(files[i]) < filepath.Base(files[j]) })
	return files, nil
}

// ofUpgrader are the programs of a component that upgraders' images have.
func (c component) ofUpgrader() []string {
	var programs []string
	for _, program := range onMachines()[c.name] {
		if slices.Contains(upgraderPrograms, program) {
			programs = append(programs, program)
		}
	}
	return programs
}

// published is the product of some programs of a component, without paths of the host in them.
func (c component) published(tools toolchain, programs []string) (cache.Product, error) {
	p, err := readPin(c.folder)
	if err != nil {
		return cache.Product{}, err
	}
	version, err := p.version(c.module)
	if err != nil {
		return cache.Product{}, fmt.Errorf("%s: %w", c.name, err)
	}
	flags := c.linkerFlags(version)
	return cache.Product{
		Name: "published-" + c.name + "-" + tools.arch, Version: version,
		Inputs: cache.Sum("published", "1", p.mod, p.sum, flags, fmt.Sprint(programs)),
		Host:   cache.Sum(string(tools.digest), tools.arch), HostErr: tools.err,
		Needs: []cache.Need{{Bytes: c.size}},
		Build: func(ctx context.Context, w cache.Workplace) error {
			if err := writeModule(w.Work, p); err != nil {
				return err
			}
			arguments := []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", w.Out + string(filepath.Separator)}
			before := len(arguments)
			for _, tool := range p.directives("tool") {
				if slices.Contains(programs, program(tool[0])) {
					arguments = append(arguments, tool[0])
				}
			}
			if len(arguments)-before != len(programs) {
				return errors.New("the pins name fewer programs than the upgrader needs: " + fmt.Sprint(programs))
			}
			_, err := tools.run(ctx, w.Work, narrate(w.Report), arguments...)
			return err
		},
	}, nil
}
