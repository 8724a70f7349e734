// Package contents lists what programs are made of, as an SPDX 2.3 document: the Go modules that the linker recorded in them, and the
// licences whose texts lie in the module cache. It reads files only, and knows nothing of images.
package contents

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// A Document is an SPDX document, as far as it is written here.
type Document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      Creation       `json:"creationInfo"`
	Packages      []Package      `json:"packages"`
	Relationships []Relationship `json:"relationships"`
}

// Creation says when a document was made, and by what.
type Creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// A Package is a program, or a module in one.
type Package struct {
	ID            string      `json:"SPDXID"`
	Name          string      `json:"name"`
	Version       string      `json:"versionInfo,omitempty"`
	Purpose       string      `json:"primaryPackagePurpose"`
	Download      string      `json:"downloadLocation"`
	FilesAnalyzed bool        `json:"filesAnalyzed"`
	Concluded     string      `json:"licenseConcluded"`
	Declared      string      `json:"licenseDeclared"`
	Copyright     string      `json:"copyrightText"`
	Checksums     []Checksum  `json:"checksums,omitempty"`
	References    []Reference `json:"externalRefs,omitempty"`
}

// A Checksum is that of a program's file.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// A Reference is a package URL.
type Reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// A Relationship says what contains what.
type Relationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// A Source says where licences are, and what the document says of itself.
type Source struct {
	ModuleCache string // GOMODCACHE
	GoRoot      string // GOROOT, for the licence of Go itself
	Own         string // the folder of the module that is being released
	Name        string // of the document
	Version     string // of the module that is being released
	Created     time.Time
}

// The identifier of the document; every other begins with the same.
const documentID = "SPDXRef-DOCUMENT"

// List returns what the programs are made of. It is the same for the same programs, whatever their order. A program without the linker's
// record, and a module that is not in the module cache, are errors.
func (s Source) List(programs []string) (*Document, error) {
	d := &Document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: s.Name,
		Creation: Creation{Created: s.Created.UTC().Format(time.RFC3339), Creators: []string{"Tool: quorate-release"}},
	}
	modules := map[string]Package{}
	digests := []string{"spdx", "1", s.Name, s.Version}
	for _, file := range slices.SortedFunc(slices.Values(programs),
		func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) }) {
		digest, err := d.add(s, file, modules)
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	for _, m := range modules {
		d.Packages = append(d.Packages, m)
	}
	slices.SortFunc(d.Packages, func(a, b Package) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Relationships, func(a, b Relationship) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.To, b.To))
	})
	d.Namespace = "https://github.com/quorate/quorate/spdx/" + s.Name + "-" + string(cache.Sum(digests...))
	return d, nil
}

// JSON is the document as it is written to a file.
func (d *Document) JSON() ([]byte, error) {
	raw, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return nil, fmt.Errorf("writing an SPDX document: %w", err)
	}
	return append(raw, '\n'), nil
}

// add adds a program and its modules, and returns the program's checksum.
func (d *Document) add(s Source, file string, modules map[string]Package) (string, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading what %s is made of: %w", file, err)
	}
	digest, err := cache.SumFile(file)
	if err != nil {
		return "", fmt.Errorf("computing the checksum of %s: %w", file, err)
	}
	_, sum, _ := strings.Cut(string(digest), ":")
	p := Package{
		ID: identifier("program", filepath.Base(file)), Name: filepath.Base(file), Purpose: "APPLICATION",
		Download: NoAssertion, Concluded: NoAssertion, Declared: NoAssertion, Copyright: NoAssertion,
		Checksums: []Checksum{{"SHA256", cmp.Or(sum, string(digest))}},
	}
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, Relationship{documentID, "DESCRIBES", p.ID})
	all, err := s.modules(info)
	if err != nil {
		return "", fmt.Errorf("listing what %s is made of: %w", file, err)
	}
	for _, m := range all {
		modules[m.ID] = m
		d.Relationships = append(d.Relationships, Relationship{p.ID, "CONTAINS", m.ID})
	}
	return string(digest), nil
}

// modules are those that the linker recorded in one program, and Go's own library.
func (s Source) modules(info *debug.BuildInfo) ([]Package, error) {
	golang, err := licenceOf(s.GoRoot)
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	all := []Package{module("stdlib", version, golang, "https://go.dev/dl/go"+version+".src.tar.gz")}
	if info.Main.Path == "github.com/quorate/quorate" {
		own, err := licenceOf(s.Own)
		if err != nil {
			return nil, err
		}
		all = append(all, module(info.Main.Path, s.Version, own, NoAssertion))
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if dep.Version == "" {
			return nil, errors.New("module " + dep.Path + " was replaced by a folder: only modules with a version can be named")
		}
		path, version := escape(dep.Path), escape(dep.Version)
		licence, err := licenceOf(filepath.Join(s.ModuleCache, filepath.FromSlash(path)+"@"+version))
		if err != nil {
			return nil, err
		}
		all = append(all, module(dep.Path, dep.Version, licence, "https://proxy.golang.org/"+path+"/@v/"+version+".zip"))
	}
	return all, nil
}

func module(path, version, licence, download string) Package {
	locator := "pkg:golang/" + path
	if version != "" {
		locator += "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	return Package{
		ID: identifier("module", path, version), Name: path, Version: version, Purpose: "LIBRARY", Download: download,
		Concluded: NoAssertion, Declared: licence, Copyright: NoAssertion,
		References: []Reference{{"PACKAGE-MANAGER", "purl", locator}},
	}
}

var outside = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// identifier is that of a package: SPDX takes letters, digits, dots and hyphens.
func identifier(parts ...string) string {
	return "SPDXRef-" + outside.ReplaceAllString(strings.Trim(strings.Join(parts, "-"), "-"), "-")
}

// escape writes a module's path or version as the module cache does: an upper case letter is an exclamation mark and the lower case one.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteRune('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
