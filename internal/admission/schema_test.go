package admission

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config/crd"
)

// definition is the schema of a kind, as the API server holds objects against it.
type definition struct {
	structural *schema.Structural
	types      validation.SchemaValidator
	rules      *cel.Validator
}

// define reads the schema of v1beta2 from a CustomResourceDefinition.
func define(t *testing.T, text []byte) *definition {
	t.Helper()
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		t.Fatal(err)
	}
	for _, v := range external.Spec.Versions {
		if v.Name != "v1beta2" {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, internal, nil)
		if err != nil {
			t.Fatal(err)
		}
		structural, err := schema.NewStructural(internal)
		if err != nil {
			t.Fatal(err)
		}
		types, _, err := validation.NewSchemaValidator(internal)
		if err != nil {
			t.Fatal(err)
		}
		return &definition{structural: structural, types: types, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	}
	t.Fatalf("%s has no version v1beta2", external.Name)
	return nil
}

// ownDefinition is Quorate's definition of a kind.
func ownDefinition(t *testing.T, plural string) *definition {
	t.Helper()
	text, err := crd.Files.ReadFile("controlplane.cluster.x-k8s.io_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return define(t, text)
}

// refusal says why the schema refuses a write; nil: it accepts it. before is nil for a new object.
func (d *definition) refusal(t *testing.T, before, after any) error {
	t.Helper()
	is := plainJSON(t, after)
	if before == nil {
		if errs := validation.ValidateCustomResource(nil, is, d.types); len(errs) > 0 {
			return errs.ToAggregate()
		}
		errs, _ := d.rules.Validate(t.Context(), nil, d.structural, is, nil, celconfig.RuntimeCELCostBudget)
		return errs.ToAggregate()
	}
	was := plainJSON(t, before)
	both := common.NewCorrelatedObject(is, was, &model.Structural{Structural: d.structural}) // what stays as it was is not refused
	if errs := validation.ValidateCustomResourceUpdate(nil, is, was, d.types, validation.WithRatcheting(both)); len(errs) > 0 {
		return errs.ToAggregate()
	}
	errs, _ := d.rules.Validate(t.Context(), nil, d.structural, is, was, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(both))
	return errs.ToAggregate()
}

// plainJSON returns an object as the API server reads it.
func plainJSON(t *testing.T, object any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]any{}
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
