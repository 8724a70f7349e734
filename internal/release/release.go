// Package release makes what a release of Quorate consists of. These are programs, container images, lists of what is in them, the
// manifests and the Helm chart of an installation, bundles of what local machines are made of, and checksums. Two releases of one
// commit are equal byte by byte, wherever they are made, but for bundles: those have programs of the host that built them.
//
// It knows what is in an image. How an image is written is in artifacts/image, what a program is made of in contents.
package release

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/program/signature"
	"github.com/quorate/quorate/internal/release/published"
)

// Architectures are those of Linux that a release is made for.
var Architectures = []string{"amd64", "arm64"}

// Options say what is released, and from what.
type Options struct {
	Root string // folder of the module's sources
	Out  string // folder to write to; what an earlier release left there is replaced
	// Version, Revision and Date are what programs report about themselves. Version may be empty where no release has been tagged; then
	// it is made of the revision. Date is that of the revision, in RFC 3339.
	Version, Revision, Date string
	Architectures           []string // empty: Architectures
	// versions for which there are upgraders' images; nil: all that are pinned but the oldest, which no test upgrades to
	Kubernetes []string
	Bundles    []string // versions for which bundles are made; nil: the default version
	KeyFile    string   // PEM file with the ed25519 private key that signs the checksums and bundles; empty: they are not signed
	Artifacts  artifacts.Options
	Report     func(format string, values ...any) // tells what is being done, for people
}

// Release makes a release in parts.
type Release struct {
	Options
	date  time.Time
	cache goEnvironment
	work  string
	// images are those that Images wrote.
	images []published.Image
}

var versionForm = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// New checks options and completes them.
func New(ctx context.Context, o Options) (*Release, error) {
	r := &Release{Options: o}
	if r.Revision == "" {
		return nil, errors.New("no revision: must be the commit of the sources, for example REVISION=$(git rev-parse HEAD)")
	}
	if r.Version == "" {
		r.Version = "v0.0.0-g" + r.Revision[:min(12, len(r.Revision))]
		if strings.HasSuffix(r.Revision, "-dirty") {
			r.Version += "-dirty"
		}
	}
	if !versionForm.MatchString(r.Version) {
		return nil, fmt.Errorf("invalid version %q: must be one like v0.1.0 or v0.1.0-rc.1", r.Version)
	}
	var err error
	if r.date, err = time.Parse(time.RFC3339, r.Date); err != nil {
		return nil, fmt.Errorf("invalid date %q: must be the date of the commit, such as 2026-11-23T04:05:06Z", r.Date)
	}
	if len(r.Architectures) == 0 {
		r.Architectures = Architectures
	}
	for _, a := range r.Architectures {
		if !slices.Contains(Architectures, a) {
			return nil, fmt.Errorf("invalid architecture %q: must be %s", a, strings.Join(Architectures, " or "))
		}
	}
	if err := r.chooseVersions(); err != nil {
		return nil, err
	}
	if r.Root, err = filepath.Abs(r.Root); err != nil {
		return nil, err
	}
	if r.Out, err = filepath.Abs(r.Out); err != nil {
		return nil, err
	}
	if r.Report == nil {
		r.Report = func(string, ...any) {}
	}
	r.cache, err = askGo(ctx, r.Root)
	return r, err
}

// chooseVersions sets the versions of Kubernetes that the user leaves to this package, and checks those that the user chose.
func (r *Release) chooseVersions() error {
	if r.Kubernetes == nil {
		all := artifacts.NewestPatches()
		r.Kubernetes = all[:len(all)-1]
	}
	if r.Bundles == nil {
		r.Bundles = []string{artifacts.DefaultVersion}
	}
	if err := checkVersions("upgraders", r.Kubernetes); err != nil {
		return err
	}
	return checkVersions("bundles", r.Bundles)
}

// checkVersions returns an error unless all versions of Kubernetes can be built. It is called before anything is built.
func checkVersions(of string, versions []string) error {
	for _, v := range versions {
		if all := artifacts.Versions(); !slices.Contains(all, v) {
			return fmt.Errorf("invalid version %q of %s: must be one of %s", v, of, strings.Join(all, ", "))
		}
	}
	return nil
}

// Images writes the images of the manager and of the upgraders, as OCI image layouts, what is in each beside it, and the lists of their
// digests.
func (r *Release) Images(ctx context.Context) error {
	return r.within(func() error {
		written, err := r.manager(ctx)
		if err != nil {
			return err
		}
		r.images = []published.Image{written}
		for _, version := range r.Kubernetes {
			if written, err = r.upgrader(ctx, version); err != nil {
				return err
			}
			r.images = append(r.images, written)
		}
		return published.Write(r.Out, r.images)
	})
}

// Manager writes the image of the manager alone.
func (r *Release) Manager(ctx context.Context) error {
	return r.within(func() error {
		_, err := r.manager(ctx)
		return err
	})
}

// Upgrader writes the image of the upgrader of one version of Kubernetes.
func (r *Release) Upgrader(ctx context.Context, kubernetes string) error {
	return r.within(func() error {
		_, err := r.upgrader(ctx, kubernetes)
		return err
	})
}

// Cached returns the versions of Kubernetes whose upgraders' images need no programs but the upgrader to be built: the others are in the
// cache.
func (r *Release) Cached(ctx context.Context) ([]string, error) {
	var versions []string
	for _, version := range r.Kubernetes {
		missing := 0
		for _, arch := range r.Architectures {
			names, err := artifacts.PublishedMissing(ctx, r.Artifacts, version, arch)
			if err != nil {
				return nil, err
			}
			missing += len(names)
		}
		if missing == 0 {
			versions = append(versions, version)
		}
	}
	return versions, nil
}

// All writes images, programs, bundles, manifests, the chart and checksums.
func (r *Release) All(ctx context.Context) error {
	var key ed25519.PrivateKey
	if r.KeyFile != "" {
		var err error
		if key, err = signature.ReadPrivateKey(r.KeyFile); err != nil {
			return err // before anything is built
		}
	}
	if err := r.Images(ctx); err != nil {
		return err
	}
	if err := r.within(func() error { return r.programs(ctx) }); err != nil {
		return err
	}
	if err := r.WriteBundles(ctx); err != nil {
		return err
	}
	if err := r.manifests(ctx); err != nil {
		return err
	}
	if err := r.Chart(); err != nil {
		return err
	}
	if err := Checksums(r.Out); err != nil {
		return err
	}
	if key == nil {
		r.Report("not signed: no file with a key was named")
		return nil
	}
	return sign(r.Out, key)
}

// within does something with a folder for what is needed meanwhile.
func (r *Release) within(do func() error) error {
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return fmt.Errorf("making the folder of the release: %w", err)
	}
	work, err := os.MkdirTemp(r.Out, ".work-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	r.work = work
	return errors.Join(do(), os.RemoveAll(work))
}

// released are the programs that people download, by the folder under cmd.
var released = map[string]string{"quorate": "quorate", "manager": "quorate-manager", "node": "quorate-node", "upgrader": "quorate-upgrader"}

// programs writes all programs for all architectures, each with what it is made of.
func (r *Release) programs(ctx context.Context) error {
	for _, arch := range r.Architectures {
		for _, command := range []string{"quorate", "manager", "node", "upgrader"} {
			file, err := r.build(ctx, arch, command)
			if err != nil {
				return err
			}
			name := released[command] + "-linux-" + arch
			if err := r.list(name, []string{file}, filepath.Join(r.Out, name+".spdx.json")); err != nil {
				return err
			}
			if err := os.Rename(file, filepath.Join(r.Out, name)); err != nil {
				return fmt.Errorf("placing %s: %w", name, err)
			}
		}
	}
	return nil
}

// build builds one program of this module and returns its file, named as in a release.
func (r *Release) build(ctx context.Context, arch, command string) (string, error) {
	file := filepath.Join(r.work, "linux-"+arch, released[command])
	r.Report("building %s for %s", released[command], arch)
	return file, Build(ctx, r.Root, "./cmd/"+command, file, arch, r.Stamp())
}

// buildinfoPackage has the variables that the linker sets.
const buildinfoPackage = "github.com/quorate/quorate/internal/program/buildinfo."

// Stamp is what the linker is told, so that programs know what they were built from.
func (r *Release) Stamp() map[string]string {
	return map[string]string{
		buildinfoPackage + "version": r.Version, buildinfoPackage + "revision": r.Revision, buildinfoPackage + "date": r.Date,
	}
}
