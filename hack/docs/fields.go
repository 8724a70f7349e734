package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schema is shorter than its name.
type schema = apiextensionsv1.JSONSchemaProps

// field is one field of a kind.
type field struct {
	path, kind, preset, bounds, says string
	// upstream: Cluster API or Kubernetes describes it in the same words.
	upstream bool
}

// readKinds reads the definitions of kinds in a folder, in the order of their files.
func readKinds(dir string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("finding definitions of kinds in %s: %d found, %w", dir, len(paths), err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		kind, err := readKind(path)
		if err != nil {
			return nil, err
		}
		all = append(all, kind)
	}
	return all, nil
}

func readKind(path string) (apiextensionsv1.CustomResourceDefinition, error) {
	var kind apiextensionsv1.CustomResourceDefinition
	data, err := os.ReadFile(path)
	if err != nil {
		return kind, fmt.Errorf("reading a definition: %w", err)
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return kind, fmt.Errorf("reading %s: %w", path, err)
	}
	return kind, nil
}

// upstreamWords are the descriptions of fields that Cluster API's kinds have which Quorate's embed.
func upstreamWords(root string) (map[string]bool, error) {
	module, err := golist(root, "-m", "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	words := map[string]bool{}
	for _, file := range []string{
		"controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
		"core/config/crd/bases/cluster.x-k8s.io_machines.yaml",
	} {
		kind, err := readKind(filepath.Join(module[0], file))
		if err != nil {
			return nil, err
		}
		for _, v := range kind.Spec.Versions {
			for _, f := range fields(v.Schema.OpenAPIV3Schema, nil) {
				words[f.says] = true
			}
		}
	}
	delete(words, "")
	return words, nil
}

// fields are the fields below spec and status, in the order of their paths. upstream are descriptions of fields that are others'.
func fields(of *schema, upstream map[string]bool) []field {
	var all []field
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[name]
			below := strings.TrimPrefix(path+"."+name, ".")
			if path == "" && name != "spec" && name != "status" {
				continue
			}
			f := fieldOf(below, &p, slices.Contains(s.Required, name))
			f.upstream = upstream[f.says]
			all = append(all, f)
			if p.Items != nil && p.Items.Schema != nil {
				walk(below+"[]", p.Items.Schema)
			}
			if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
				walk(below+".*", p.AdditionalProperties.Schema)
			}
			walk(below, &p)
		}
	}
	walk("", of)
	return all
}

// fieldOf describes one field.
func fieldOf(path string, s *schema, required bool) field {
	f := field{path: path, kind: typeOf(s), says: cell(s.Description)}
	if s.Default != nil {
		f.preset = string(s.Default.Raw)
	}
	f.bounds = bounds(s)
	if required {
		f.bounds = strings.TrimSuffix("required; "+f.bounds, "; ")
	}
	return f
}

func typeOf(s *schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(s.Items.Schema)
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(s.AdditionalProperties.Schema)
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// bounds says which values a field accepts beside its type. Messages stand in it as code: they are what the API server answers.
func bounds(s *schema) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	var values []string
	for _, v := range s.Enum {
		values = append(values, strings.Trim(string(v.Raw), `"`))
	}
	if len(values) > 0 {
		add("one of %s", strings.Join(values, ", "))
	}
	if s.Minimum != nil {
		add("at least %v", *s.Minimum)
	}
	if s.Maximum != nil {
		add("at most %v", *s.Maximum)
	}
	for _, size := range []struct {
		least, most *int64
		of          string
	}{{s.MinLength, s.MaxLength, "characters"}, {s.MinItems, s.MaxItems, "entries"}, {s.MinProperties, s.MaxProperties, "fields"}} {
		if size.least != nil {
			add("at least %d %s", *size.least, size.of)
		}
		if size.most != nil {
			add("at most %d %s", *size.most, size.of)
		}
	}
	if s.Pattern != "" {
		add("pattern `%s`", s.Pattern)
	}
	for _, v := range s.XValidations {
		if v.Message != "" {
			add("`%s`", v.Message)
		} else {
			add("rule `%s`", v.Rule)
		}
	}
	return cell(strings.Join(all, "; "))
}
