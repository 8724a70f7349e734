// Command generate writes the definitions (CRDs) of the kinds in the packages that it is given, as controller-gen does, into a
// folder. controller-gen itself cannot. Our kinds embed upstream's structs, and it takes upstream's package, which comes in
// with them, for one more source of kinds, so that a definition gets the same version twice.
//
// It knows Go packages and files. What a definition says is in the markers beside the types.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER PACKAGES...")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(folder string, paths []string) error {
	roots, err := loader.LoadRoots(paths...)
	if err != nil {
		return fmt.Errorf("loading %v: %w", paths, err)
	}
	definitions, err := define(roots)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if err := write(folder, d); err != nil {
			return err
		}
	}
	return nil
}

// define returns the definitions of all kinds in the packages.
func define(roots []*loader.Package) ([]apiextensionsv1.CustomResourceDefinition, error) {
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, fmt.Errorf("registering markers: %w", err)
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
	}
	crd.AddKnownTypes(parser)
	for _, root := range roots {
		parser.NeedPackage(root)
	}
	meta := crd.FindMetav1(roots)
	if meta == nil {
		return nil, errors.New("the packages hold no kinds")
	}
	ours := maps.Clone(parser.GroupVersions)
	var all []apiextensionsv1.CustomResourceDefinition
	for _, kind := range crd.FindKubeKinds(parser, meta) {
		// Only the packages that were asked for define kinds, not those that came in with fields of the last one.
		parser.GroupVersions = maps.Clone(ours)
		parser.NeedCRDFor(kind, nil)
		d := parser.CustomResourceDefinitions[kind]
		crd.FixTopLevelMetadata(d)
		all = append(all, d)
	}
	// Function bodies were left out, so that types do not check.
	if loader.PrintErrors(roots, packages.TypeError) {
		return nil, errors.New("not all packages could be read")
	}
	return all, nil
}

func write(folder string, d apiextensionsv1.CustomResourceDefinition) error {
	data, err := yaml.Marshal(struct {
		apiextensionsv1.CustomResourceDefinition `json:",inline"`
		Status                                   *struct{} `json:"status,omitempty"`
	}{CustomResourceDefinition: d})
	if err != nil {
		return fmt.Errorf("encoding %s: %w", d.Name, err)
	}
	path := filepath.Join(folder, d.Spec.Group+"_"+d.Spec.Names.Plural+".yaml")
	if err := os.WriteFile(path, append([]byte("---\n"), data...), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", d.Name, err)
	}
	return nil
}
