package admission

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstreamv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/feature"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func TestMain(m *testing.M) {
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.ClusterTopology): true}); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func template() *controlplanev1.KubeadmControlPlaneTemplate {
	t := &controlplanev1.KubeadmControlPlaneTemplate{}
	one := int32(1)
	t.Spec.Template.Spec.Joins.MaxParallel = &one
	t.Spec.Template.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
	t.Spec.Template.Spec.MachineNaming.Template = "{{ .kubeadmControlPlane.name }}-{{ .random }}"
	return t
}

type spec = controlplanev1.KubeadmControlPlaneTemplateResourceSpec

func TestCreate(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*spec)
		refusal string
	}{
		{"as it is", func(*spec) {}, ""},
		{"two surplus machines", func(s *spec) {
			two := intstr.FromInt32(2)
			s.Rollout.Strategy = upstreamv1.KubeadmControlPlaneRolloutStrategy{Type: upstreamv1.RollingUpdateStrategyType}
			s.Rollout.Strategy.RollingUpdate.MaxSurge = &two
		}, "maxSurge"},
		{"names without a random part", func(s *spec) { s.MachineNaming.Template = "x" }, "machineNaming"},
		{"a random part twice", func(s *spec) { s.MachineNaming.Template = "{{ .random }}-{{ .random }}" }, ""},
		{"a random part that is never there", func(s *spec) { s.MachineNaming.Template = "x{{ if false }}{{ .random }}{{ end }}" },
			"spec.template.spec.machineNaming.template"},
		{"a file twice", func(s *spec) {
			s.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/a", Content: "x"}, {Path: "/a", Content: "y"}}
		}, "files[1].path"},
	} {
		made := template()
		row.change(&made.Spec.Template.Spec)
		_, err := (&KubeadmControlPlaneTemplate{}).ValidateCreate(t.Context(), made)
		want(t, row.name, err, row.refusal)
	}
}

func TestUpdate(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*spec)
		refusal string
	}{
		{"nothing", func(*spec) {}, ""},
		{"joins", func(s *spec) { s.Joins.MaxParallel = nil }, "spec.template.spec"},
		{"no auto-repair", func(s *spec) { s.AutoRepair = nil }, "spec.template.spec"},
		{"auto-repair", func(s *spec) { s.AutoRepair.UnhealthyTimeoutSeconds = new(int32) }, "spec.template.spec"},
		{"upstream's field", func(s *spec) { s.KubeadmConfigSpec.Verbosity = new(int32) }, "spec.template.spec"},
	} {
		before, after := template(), template()
		row.change(&after.Spec.Template.Spec)
		seen := after.DeepCopy()
		_, err := (&KubeadmControlPlaneTemplate{}).ValidateUpdate(t.Context(), before, after)
		want(t, row.name, err, row.refusal)
		// Upstream fills in old defaults before it compares.
		if !equality.Semantic.DeepEqual(before, template()) || !equality.Semantic.DeepEqual(after, seen) {
			t.Errorf("%s: what is validated was changed", row.name)
		}
	}
}

// TestDelete: a template that may not be created can be deleted, such as one that an older version accepted.
func TestDelete(t *testing.T) {
	invalid := template()
	invalid.Spec.Template.Spec.MachineNaming.Template = "x"
	_, err := (&KubeadmControlPlaneTemplate{}).ValidateCreate(t.Context(), invalid)
	want(t, "create", err, "machineNaming")
	for _, made := range []*controlplanev1.KubeadmControlPlaneTemplate{template(), invalid} {
		_, err := (&KubeadmControlPlaneTemplate{}).ValidateDelete(t.Context(), made)
		want(t, "delete", err, "")
	}
}

func want(t *testing.T, name string, err error, refusal string) {
	t.Helper()
	if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
		t.Errorf("%s: %v, want a refusal with %q", name, err, refusal)
	}
}
