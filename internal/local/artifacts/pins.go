package artifacts

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	pins "github.com/quorate/quorate/artifacts"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

const kubernetesPrefix = "kubernetes-"

// DefaultVersion is the version of Kubernetes where the user names none: the newest that all lives on machines are run with. A version that
// is new to Quorate can be named before that.
const DefaultVersion = "v1.37.2"

// Versions returns the versions of Kubernetes that can be had, newest first.
func Versions() []string {
	folders, err := fs.Glob(pins.Pins, kubernetesPrefix+"*")
	if err != nil {
		return nil // the only error is a bad pattern
	}
	versions := make([]string, 0, len(folders))
	for _, folder := range folders {
		versions = append(versions, strings.TrimPrefix(folder, kubernetesPrefix))
	}
	slices.SortFunc(versions, func(a, b string) int {
		newer, errA := version.Parse(a)
		older, errB := version.Parse(b)
		if errA != nil || errB != nil {
			return cmp.Compare(b, a)
		}
		return version.Compare(older, newer)
	})
	return versions
}

// NewestPatches returns the newest patch of each minor version that can be had, newest first. The one before it is there for upgrades
// between patches.
func NewestPatches() []string {
	return slices.CompactFunc(Versions(), func(a, b string) bool { return minorOf(a) == minorOf(b) })
}

// Upgrade is a step from one pinned version of Kubernetes to another, such as from v1.36.3 to v1.37.2.
type Upgrade struct{ From, To string }

// Upgrades returns the steps to the newest patch of each minor version, the newest first: from the patch before it that is pinned, and
// from the newest patch of the minor version before.
func Upgrades() []Upgrade {
	versions, newest := Versions(), NewestPatches()
	var all []Upgrade
	for i, to := range newest {
		patches := slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return minorOf(v) != minorOf(to) })
		if len(patches) > 1 {
			all = append(all, Upgrade{patches[1], to})
		}
		if i+1 < len(newest) {
			all = append(all, Upgrade{newest[i+1], to})
		}
	}
	return all
}

// minorOf returns v1.36 of v1.36.3.
func minorOf(v string) string { return v[:strings.LastIndexByte(v, '.')] }

// pin is a go.mod, its go.sum, and the programs of our own in that module.
type pin struct {
	mod, sum string
	sources  map[string]string // by their paths in the module; nil: there are none
}

func readPin(folder string) (pin, error) {
	mod, err := fs.ReadFile(pins.Pins, path.Join(folder, "go.mod.txt"))
	if err != nil {
		return pin{}, fmt.Errorf("reading the pins of %s: %w", folder, err)
	}
	sum, err := fs.ReadFile(pins.Pins, path.Join(folder, "go.sum.txt"))
	if err != nil {
		return pin{}, fmt.Errorf("reading the pins of %s: %w", folder, err)
	}
	sources, err := readSources(folder)
	return pin{mod: string(mod), sum: string(sum), sources: sources}, err
}

// readSources returns what lies below a folder as PROGRAM/main.go.txt, as PROGRAM/main.go.
func readSources(folder string) (map[string]string, error) {
	files, err := fs.Glob(pins.Pins, path.Join(folder, "*", "main.go.txt"))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	sources := map[string]string{}
	for _, file := range files {
		text, err := fs.ReadFile(pins.Pins, file)
		if err != nil {
			return nil, fmt.Errorf("reading the programs of %s: %w", folder, err)
		}
		sources[strings.TrimSuffix(strings.TrimPrefix(file, folder+"/"), ".txt")] = string(text)
	}
	return sources, nil
}

// digest is of all that the pins decide, beside other texts.
func (p pin) digest(parts ...string) cache.Digest {
	parts = slices.Clone(parts)
	for _, file := range sortedKeys(p.sources) {
		parts = append(parts, file, p.sources[file])
	}
	return cache.Sum(parts...)
}

// directives returns the arguments of every line of one kind, in blocks or not: directives("tool").
func (p pin) directives(kind string) [][]string {
	var found [][]string
	block := ""
	for line := range strings.Lines(p.mod) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == ")":
			block = ""
		case slices.Equal(words[1:], []string{"("}):
			block = words[0]
		case block == kind:
			found = append(found, words)
		case block == "" && words[0] == kind:
			found = append(found, words[1:])
		}
	}
	return found
}

// version returns the version of a module.
func (p pin) version(module string) (string, error) {
	for _, words := range p.directives("require") {
		if words[0] == module {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("the pins require no module %s", module)
}

// program returns the file name of the program that a package builds, as Go names it: the last part of its
// path that is not a major version.
func program(pkg string) string {
	name := path.Base(pkg)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		return path.Base(path.Dir(pkg))
	}
	return name
}
