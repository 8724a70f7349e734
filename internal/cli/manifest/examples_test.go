package manifest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

const examples = "../../../examples"

// The examples are what the flags that their comments name would make.
func TestExamplesAreWhatFlagsMake(t *testing.T) {
	wide := demo()
	wide.Name, wide.Replicas, wide.MaxParallel, wide.AutoRepair = "wide", 5, 2, true
	inPlace := demo()
	inPlace.Name, inPlace.Replicas, inPlace.InPlace = "inplace", 1, controlplanev1.InPlacePreferred
	small := demo()
	small.Name, small.Replicas, small.Workers = "small", 1, 2
	machines := demo()
	machines.Name, machines.Kind, machines.AutoRepair = "machines", ControlPlane, true
	apart := demo()
	apart.Name, apart.Etcd = "apart", 3
	for file, c := range map[string]Cluster{
		"etcd-on-machines-of-its-own.yaml":    apart,
		"control-plane-of-machines.yaml":      machines,
		"cluster.yaml":                        demo(),
		"with-workers.yaml":                   small,
		"in-place.yaml":                       inPlace,
		"five-replicas-in-three-domains.yaml": wide,
	} {
		t.Run(file, func(t *testing.T) {
			if err := c.Check(versions); err != nil {
				t.Fatal(err)
			}
			got := parseFile(t, file)
			docs := c.Documents()
			if len(got) != len(docs) {
				t.Fatalf("%d objects, the flags make %d", len(got), len(docs))
			}
			for i, d := range docs {
				if want := generic(t, d); !reflect.DeepEqual(got[i].Object, want.Object) {
					t.Errorf("%s %s differs\nexample: %v\nflags:   %v", got[i].GetKind(), got[i].GetName(), got[i].Object, want.Object)
				}
			}
		})
	}
}

// Each example is complete, and valid after the schemas and rules that the API server applies.
func TestExamplesAreValid(t *testing.T) {
	schemas := loadSchemas(t)
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, f := range files {
		objects := parseFile(t, filepath.Base(f))
		if err := CheckObjects(objects, versions, nothingExists); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, o := range objects {
			for _, problem := range schemas.validate(t, o) {
				t.Errorf("%s: %s %s: %s", f, o.GetKind(), o.GetName(), problem)
			}
		}
	}
}

// The validation that the test above relies on finds what is wrong.
func TestSchemasRefuse(t *testing.T) {
	schemas := loadSchemas(t)
	for _, tt := range []struct {
		file, kind string
		value      any
		path       []string
		part       string
	}{
		{"cluster.yaml", "KubeadmControlPlane", int64(4), []string{"spec", "replicas"}, "needs an odd number"},
		{"cluster.yaml", "KubeadmControlPlane", int64(0), []string{"spec", "joins", "maxParallel"}, "maxParallel"},
		{"cluster.yaml", "LocalCluster", []any{""}, []string{"spec", "failureDomains"}, "failureDomains"},
		{"cluster.yaml", "Cluster", "Not A Kind", []string{"spec", "infrastructureRef", "kind"}, "kind"},
		{"control-plane-of-machines.yaml", "ControlPlane", int64(4), []string{"spec", "replicas"}, "needs an odd number"},
		{"control-plane-of-machines.yaml", "ControlPlane", int64(0), []string{"spec", "joins", "maxParallel"}, "maxParallel"},
		{"control-plane-of-machines.yaml", "ControlPlane", "KubeadmConfig", []string{"spec", "machineTemplate", "spec", "bootstrap", "configRef",
			"kind"}, "kind of a template"},
	} {
		for _, o := range parseFile(t, tt.file) {
			if o.GetKind() != tt.kind {
				continue
			}
			if err := unstructured.SetNestedField(o.Object, tt.value, tt.path...); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(schemas.validate(t, o), "\n"); !strings.Contains(got, tt.part) {
				t.Errorf("%s with %v at %v: problems are %q, want %q", tt.kind, tt.value, tt.path, got, tt.part)
			}
		}
	}
}

func parseFile(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	objects, err := Parse(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func generic(t *testing.T, d Document) *unstructured.Unstructured {
	t.Helper()
	var out strings.Builder
	if err := Write(&out, []Document{d}); err != nil {
		t.Fatal(err)
	}
	objects, err := Parse(strings.NewReader(out.String()), "written")
	if err != nil {
		t.Fatal(err)
	}
	return objects[0]
}

// schemas are those of the CRDs that the management plane serves.
type schemas map[runtimeschema.GroupVersionKind]*apiextensions.JSONSchemaProps

func loadSchemas(t *testing.T) schemas {
	t.Helper()
	dirs := []string{"../../../config/crd"}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("finding Cluster API's module: %v", err)
	}
	root := strings.TrimSpace(string(module))
	dirs = append(dirs, filepath.Join(root, "core/config/crd/bases"), filepath.Join(root, "bootstrap/kubeadm/config/crd/bases"))
	s := schemas{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no CRDs in %s: %v", dir, err)
		}
		for _, f := range files {
			s.load(t, f)
		}
	}
	return s
}

func (s schemas) load(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Schema == nil {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			t.Fatal(err)
		}
		s[runtimeschema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = &props
	}
}

func (s schemas) validate(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	props, found := s[o.GroupVersionKind()]
	if !found {
		return []string{"no CRD has this kind"}
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	object := runtime.DeepCopyJSON(o.Object)
	defaulting.Default(object, structural)
	var problems []string
	for _, e := range validation.ValidateCustomResource(nil, object, validator) {
		problems = append(problems, e.Error())
	}
	errs, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).
		Validate(context.Background(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
	for _, e := range errs {
		problems = append(problems, e.Error())
	}
	return problems
}
