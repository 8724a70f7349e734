package artifacts

import (
	"context"
	"os"
	"slices"
	"strings"
)

// Versions returns the versions of Kubernetes that can be had with these options: the pinned ones, newest first, and after them those
// that were made with pins of the past and are still there.
func (o Options) Versions() []string {
	versions := Versions()
	for _, s := range o.Made {
		if !slices.Contains(versions, s.Kubernetes) && s.whole() {
			versions = append(versions, s.Kubernetes)
		}
	}
	return versions
}

// made returns what was made earlier of a version that is not pinned any more; nil when nothing, or not all of it, is there.
func (o Options) made(version string) *Set {
	for _, s := range o.Made {
		if strings.TrimPrefix(s.Kubernetes, "v") == strings.TrimPrefix(version, "v") && s.whole() {
			s.Images = slices.Clone(s.Images)
			return &s
		}
	}
	return nil
}

// whole reports whether everything of the set is there.
func (s Set) whole() bool {
	if s.Kubernetes == "" {
		return false
	}
	paths := append([]string{s.Management, s.Machine, s.CNI, s.CRDs}, s.Images...)
	if s.Store != "" {
		paths = append(paths, s.Store)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); path == "" || err != nil {
			return false
		}
	}
	return true
}

// refresh gives a set of the past the manifests of Cluster API that go with this program's controllers: they belong to the program,
// not to the version of Kubernetes.
func (o Options) refresh(ctx context.Context, s *Set) (*Set, error) {
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	product, err := clusterAPIProduct(findToolchain(ctx))
	if err != nil {
		return nil, err
	}
	s.CRDs, err = c.Ensure(ctx, product)
	return s, err
}
