package artifacts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/artifacts/image"
)

// ImageBase is in every image: names of users, and the order in which names of hosts are looked up.
func ImageBase() []image.File { return slices.Clone(common) }

// upgraderFolder is where upgraders' images have the programs of a version.
const upgraderFolder = "/bin"

// Upgrader is what the image of an upgrader has beside the upgrader itself.
type Upgrader struct {
	// Programs are files by their paths in the image.
	Programs map[string]string
	// Brings is which of them are not Kubernetes' own, as the image is to say it in steps.BringsFile.
	Brings steps.Brings
}

// PublishedUpgrader returns what the upgrader's image of a pinned version of Kubernetes has, for an architecture of Linux such as arm64.
// Unlike the programs of EnsureUpgrader, which stay on one host, they are the same wherever they are built: no path of the host is in them.
func PublishedUpgrader(ctx context.Context, o Options, kubernetes, arch string) (Upgrader, error) {
	parts, err := o.upgraderParts(ctx, kubernetes, arch)
	if err != nil {
		return Upgrader{}, err
	}
	c, err := o.openCache()
	if err != nil {
		return Upgrader{}, err
	}
	u, versions := Upgrader{Programs: map[string]string{}}, map[string]string{}
	for _, part := range parts {
		versions[part.component] = part.product.Version
		folder, err := c.Ensure(ctx, part.product)
		if err != nil {
			return Upgrader{}, err
		}
		for _, program := range part.programs {
			u.Programs[path.Join(part.inside, program)] = filepath.Join(folder, program)
		}
	}
	u.Brings = bringsOf(versions)
	return u, nil
}

// PublishedMissing returns the names of the products that PublishedUpgrader would have to build, without looking into those that are there.
func PublishedMissing(ctx context.Context, o Options, kubernetes, arch string) ([]string, error) {
	parts, err := o.upgraderParts(ctx, kubernetes, arch)
	if err != nil {
		return nil, err
	}
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, part := range parts {
		if !c.Have(part.product) {
			names = append(names, part.product.String())
		}
	}
	return names, nil
}

// An upgraderPart is what an upgrader's image has of one component: programs of a product, and the folder of the image that they are in.
type upgraderPart struct {
	component, inside string
	programs          []string
	product           cache.Product
}

// upgraderParts are those of the upgrader's image of a version of Kubernetes.
func (o Options) upgraderParts(ctx context.Context, kubernetes, arch string) ([]upgraderPart, error) {
	version, err := o.known(kubernetes)
	if err != nil {
		return nil, err
	}
	if !pinned(version) {
		return nil, fmt.Errorf("kubernetes version %q: is not pinned any more", kubernetes)
	}
	tools := findToolchain(ctx)
	tools.arch = arch
	var parts []upgraderPart
	for _, component := range components(version) {
		pins, err := readPin(component.folder)
		if err != nil {
			return nil, err
		}
		inside, programs := component.ofUpgrader(version, pins)
		if len(programs) == 0 {
			continue
		}
		p, err := component.published(tools, pins, programs)
		if err != nil {
			return nil, err
		}
		parts = append(parts, upgraderPart{component: component.name, inside: inside, programs: programs, product: p})
	}
	return parts, nil
}

// bringsOf is what an image says of the versions of its components. The runc of machines is their host's.
func bringsOf(versions map[string]string) steps.Brings {
	return steps.Brings{Containerd: versions["containerd"], CNI: versions["cni"]}
}

// ofUpgrader are the programs of a component that upgraders' images of a version of Kubernetes have, and where in them; none: it has none.
func (c component) ofUpgrader(kubernetes string, pins pin) (folder string, programs []string) {
	if c.name == "cni" {
		for _, tool := range pins.directives("tool") {
			programs = append(programs, program(tool[0]))
		}
		return steps.PluginDir, programs
	}
	for _, program := range onMachines(kubernetes)[c.name] {
		if slices.Contains(upgraderPrograms, program) || slices.Contains(steps.RuntimePrograms, program) {
			folder, programs = upgraderFolder, append(programs, program)
		}
	}
	return folder, programs
}

// published is the product of some programs of a component, without paths of the host in them.
func (c component) published(tools toolchain, p pin, programs []string) (cache.Product, error) {
	version, err := p.version(c.module)
	if err != nil {
		return cache.Product{}, fmt.Errorf("%s: %w", c.name, err)
	}
	flags := c.flags(version)
	return cache.Product{
		Name: "published-" + c.name + "-" + tools.arch, Version: version,
		Inputs: cache.Sum("published", "1", p.mod, p.sum, fmt.Sprint(flags), fmt.Sprint(programs)),
		Host:   cache.Sum(string(tools.digest), tools.arch), HostErr: tools.err,
		Needs: []cache.Need{{Bytes: c.size}},
		Build: func(ctx context.Context, w cache.Workplace) error {
			if err := writeModule(w.Work, p); err != nil {
				return err
			}
			arguments := append([]string{"build", "-v", "-trimpath", "-buildvcs=false", "-o", w.Out + string(filepath.Separator)}, flags...)
			before := len(arguments)
			for _, tool := range p.directives("tool") {
				if slices.Contains(programs, program(tool[0])) {
					arguments = append(arguments, tool[0])
				}
			}
			if len(arguments)-before != len(programs) {
				return errors.New("the pins name fewer programs than the upgrader needs: " + fmt.Sprint(programs))
			}
			_, err := tools.run(ctx, w.Work, narrate(w.Report, 0), arguments...)
			return err
		},
	}, nil
}
