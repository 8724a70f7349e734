package admission

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config/crd"
	"github.com/quorate/quorate/internal/conversion"
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

// upstreamDefinition is Cluster API's definition of a kind.
func upstreamDefinition(t *testing.T, plural string) *definition {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "controlplane/kubeadm/config/crd/bases")
	text, err := os.ReadFile(filepath.Join(folder, "controlplane.cluster.x-k8s.io_"+plural+".yaml"))
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

// definitionDifferences are cases in which Quorate's definition answers otherwise than Cluster API's on purpose, beside those of the
// webhooks.
var definitionDifferences = []difference[kcp]{
	{"a maxSurge that is no number", true, func(_, after *kcp) bool {
		most := after.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
		return most != nil && most.Type == intstr.String && most.StrVal != "0" && most.StrVal != "1"
	}},
}

// Quorate's definition of a KubeadmControlPlane and its webhook together accept and refuse what Cluster API's do, where a field that both
// have is set, changed or unset.
func TestDefinitionAsUpstream(t *testing.T) {
	gate(t, true)
	own, their := ownDefinition(t, "kubeadmcontrolplanes"), upstreamDefinition(t, "kubeadmcontrolplanes")
	c := &tally{different: map[string]int{}}
	for name, base := range bases(t) {
		base.Name, base.Namespace = "demo", "default"
		plain := conversion.PlainControlPlane(base)
		fields := slices.DeleteFunc(fieldsOf[kcp](), func(f place) bool { return name != "stacked" && !f.special })
		for _, q := range single(name, base, fields) {
			before, after := conversion.PlainControlPlane(&q.before), conversion.PlainControlPlane(&q.after)
			if equality.Semantic.DeepEqual(after, plain) || !q.isNew && !equality.Semantic.DeepEqual(before, plain) {
				continue // a field of Quorate's own, or one that has been asked about
			}
			was := &q.before
			if q.isNew {
				was, before = nil, nil
			}
			theirs := answer(t, their, &upstream.KubeadmControlPlane{}, before, after)
			ours := answer(t, own, &KubeadmControlPlane{}, was, &q.after)
			c.judge(t, q.name, theirs, ours, reasonsFor(slices.Concat(controlPlaneDifferences, definitionDifferences), was, &q.after, ours != nil))
		}
	}
	c.finish(t, titles(definitionDifferences))
}

// webhooks are those of a kind.
type webhooks[T runtime.Object] interface {
	admission.Defaulter[T]
	admission.Validator[T]
}

// answer says why the API server refuses a write, with a definition and its webhooks; nil: it accepts it. before is nil for a new object.
func answer[T interface {
	runtime.Object
	comparable
}](
	t *testing.T, d *definition, w webhooks[T], before, after T,
) error {
	t.Helper()
	after = after.DeepCopyObject().(T)
	if err := w.Default(t.Context(), after); err != nil {
		return err
	}
	var none T
	if before == none {
		if err := d.refusal(t, nil, after); err != nil {
			return err
		}
		_, err := w.ValidateCreate(t.Context(), after)
		return err
	}
	if err := d.refusal(t, before, after); err != nil {
		return err
	}
	_, err := w.ValidateUpdate(t.Context(), before.DeepCopyObject().(T), after)
	return err
}
