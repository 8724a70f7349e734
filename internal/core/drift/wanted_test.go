package drift

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// plain is a group of another kind than KubeadmControlPlane, whose machines are made
// from two templates, and a machine that it made.
type plain struct {
	w Wanted
	m Machine
}

func newPlain() plain {
	return plain{
		Wanted{
			Name:           "plain",
			Version:        "v1.35.4",
			Infrastructure: clusterv1.ContractVersionedObjectReference{APIGroup: "infra.example", Kind: "BoxTemplate", Name: "small"},
			Bootstrap:      clusterv1.ContractVersionedObjectReference{APIGroup: "boot.example", Kind: "ScriptTemplate", Name: "first"},
			Fields:         Fields{Version: "spec.machineTemplate.spec.version"},
		},
		Machine{
			Machine:        &clusterv1.Machine{Spec: clusterv1.MachineSpec{Version: "v1.35.4"}},
			Bootstrap:      cloned("ScriptTemplate.boot.example", "first"),
			Infrastructure: cloned("BoxTemplate.infra.example", "small"),
		},
	}
}

// cloned is an object that was cloned from a template.
func cloned(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: kind})
	return object
}

// withSecret makes the group one that wants a data secret.
func (p *plain) withSecret(want string, has *string) {
	p.w.Bootstrap, p.w.DataSecret = clusterv1.ContractVersionedObjectReference{}, want
	p.m.Machine.Spec.Bootstrap.DataSecretName = has
}

// said are differences in a line, with short field names.
func said(found []Difference) string {
	return strings.NewReplacer("spec.machineTemplate.spec", "T", "spec.providerSpec.value", "P").Replace(Drift{Reasons: found}.String())
}

func TestCompareWanted(t *testing.T) {
	none := clusterv1.ContractVersionedObjectReference{}
	for _, r := range []struct {
		name   string
		change func(p *plain)
		want   string // Empty: no difference.
	}{
		{"nothing changed", func(*plain) {}, ""},
		{"version: another", func(p *plain) { p.w.Version = "v1.36.3" }, "T.version: v1.35.4, wanted v1.36.3"},
		{"version: none is wanted", func(p *plain) { p.w.Version = "" }, ""},
		{"version: the machine has none", func(p *plain) { p.m.Machine.Spec.Version = "" }, "T.version: unset, wanted v1.35.4"},
		{"version: only the v is missing", func(p *plain) { p.w.Version = "1.35.4" }, ""},
		{"version: the field's default", func(p *plain) { p.w.Version, p.w.Fields = "v1.36.3", Fields{} },
			"spec.version: v1.35.4, wanted v1.36.3"},

		{"infrastructure: another template", func(p *plain) { p.w.Infrastructure.Name = "large" },
			"T.infrastructureRef.name: small, wanted large"},
		{"infrastructure: another kind", func(p *plain) { p.w.Infrastructure.Kind = "VMTemplate" },
			"T.infrastructureRef.kind: BoxTemplate.infra.example, wanted VMTemplate.infra.example"},
		{"infrastructure: another group", func(p *plain) { p.w.Infrastructure.APIGroup = "x" },
			"T.infrastructureRef.kind: BoxTemplate.infra.example, wanted BoxTemplate.x"},
		{"infrastructure: no template is wanted", func(p *plain) { p.w.Infrastructure = none }, ""},
		{"infrastructure: its template is not known",
			func(p *plain) { p.m.Infrastructure.SetAnnotations(nil); p.w.Infrastructure.Name = "large" }, ""},
		{"infrastructure: not known", func(p *plain) { p.m.Infrastructure = nil; p.w.Infrastructure.Name = "large" }, ""},
		{"infrastructure: made from an inline value",
			func(p *plain) { p.m.Infrastructure.SetAnnotations(map[string]string{ProviderSpecAnnotation: "1"}) },
			"T.infrastructureRef.name: unset, wanted small"},
		{"infrastructure: cloned, whatever else it says", func(p *plain) {
			annotations := p.m.Infrastructure.GetAnnotations()
			annotations[ProviderSpecAnnotation] = "1"
			p.m.Infrastructure.SetAnnotations(annotations)
		}, ""},
		{"infrastructure: a value and a template", func(p *plain) {
			p.w.Infrastructure.Name, p.w.Inline = "large", &unstructured.Unstructured{Object: map[string]any{}}
		}, ""},

		{"bootstrap: another template", func(p *plain) { p.w.Bootstrap.Name = "second" }, "T.bootstrap.configRef.name: first, wanted second"},
		{"bootstrap: another kind", func(p *plain) { p.w.Bootstrap.Kind = "X" },
			"T.bootstrap.configRef.kind: ScriptTemplate.boot.example, wanted X.boot.example"},
		{"bootstrap: its template is not known", func(p *plain) { p.m.Bootstrap.SetAnnotations(nil); p.w.Bootstrap.Name = "second" }, ""},
		{"bootstrap: not known", func(p *plain) { p.m.Bootstrap = nil; p.w.Bootstrap.Name = "second" }, ""},
		{"bootstrap: a KubeadmConfig", func(p *plain) {
			p.m.Config = &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Annotations: p.m.Bootstrap.GetAnnotations()}}
			p.m.Bootstrap, p.w.Bootstrap.Name = nil, "second"
		}, "T.bootstrap.configRef.name: first, wanted second"},
		{"bootstrap: nothing is wanted", func(p *plain) { p.withSecret("", ptr("a")) }, ""},
		{"bootstrap: a template, and so the provider's secret", func(p *plain) { p.w.DataSecret = "b" }, ""},

		{"secret: the wanted one", func(p *plain) { p.withSecret("a", ptr("a")) }, ""},
		{"secret: another", func(p *plain) { p.withSecret("b", ptr("a")) }, "T.bootstrap.dataSecretName: a, wanted b"},
		{"secret: none yet", func(p *plain) { p.withSecret("b", nil) }, "T.bootstrap.dataSecretName: unset, wanted b"},

		{"paths of the kind's own", func(p *plain) {
			p.w.Fields = Fields{Version: "a", Infrastructure: "b", Bootstrap: "c", DataSecret: "d"}
			p.w.Version, p.w.Infrastructure.Name, p.w.Bootstrap.Name = "v1.36.3", "large", "second"
		}, "a: v1.35.4, wanted v1.36.3; b.name: small, wanted large; c.name: first, wanted second"},
		{"paths of the kind's own: secret", func(p *plain) { p.withSecret("b", ptr("a")); p.w.Fields.DataSecret = "d" }, "d: a, wanted b"},
	} {
		p := newPlain()
		r.change(&p)
		if got := said(p.w.Compare(p.m)); got != r.want {
			t.Errorf("%s:\n  said %q\n  want %q", r.name, got, r.want)
		}
	}
}

// TestPlainInPlace: a group that requires no gates, with a bootstrap object of any provider.
func TestPlainInPlace(t *testing.T) {
	p := newPlain()
	p.w.WatchFilter = ptr("w")
	p.w.Metadata = clusterv1.ObjectMeta{
		Labels:      map[string]string{"team": "a"},
		Annotations: map[string]string{"note": "b", ProviderSpecAnnotation: "forged"},
	}
	p.w.Deletion.NodeDrainTimeoutSeconds = ptr(int32(5))
	before, _ := json.Marshal([]any{p.w, p.m})
	c := p.w.InPlace("demo", p.m)
	if after, _ := json.Marshal([]any{p.w, p.m}); string(after) != string(before) {
		t.Errorf("it changed\n%s\ninto\n%s", before, after)
	}
	labels := map[string]string{"team": "a", clusterv1.WatchLabel: "w"}
	maps.Copy(labels, IdentityLabels("plain", "demo"))
	if labels[clusterv1.ClusterNameLabel] != "demo" || labels[clusterv1.MachineControlPlaneNameLabel] != "plain" || len(labels) != 5 {
		t.Errorf("the labels are %v", labels)
	}
	origin := `{"labels":["` + clusterv1.WatchLabel + `","team"],"annotations":["note"]}`
	annotations := func(from *unstructured.Unstructured) map[string]string {
		all := from.GetAnnotations()
		all["note"], all[OriginAnnotation] = "b", origin
		return all
	}
	for name, pair := range map[string][2]Metadata{
		"Machine":        {c.Machine.Metadata, {labels, map[string]string{"note": "b", hook: "", OriginAnnotation: origin}, true}},
		"bootstrap":      {c.Config, {labels, annotations(p.m.Bootstrap), true}},
		"infrastructure": {c.Infrastructure, {labels, annotations(p.m.Infrastructure), true}},
	} {
		if got, want := pair[0], pair[1]; !maps.Equal(got.Labels, want.Labels) || !maps.Equal(got.Annotations, want.Annotations) || !got.Differs {
			t.Errorf("%s gets\n%v\nwant\n%v", name, got, want)
		}
	}
	if len(c.Machine.ReadinessGates) != 0 || *c.Machine.Deletion.NodeDrainTimeoutSeconds != 5 {
		t.Errorf("the machine gets %+v", c.Machine)
	}
}

// TestPlainGates: which readiness gates a Machine has, by those of its group.
func TestPlainGates(t *testing.T) {
	for _, r := range []struct{ name, has, required, retired, users, want string }{
		{"none at all", "", "", "", "", ""},
		{"of others", "Theirs", "", "", "", "Theirs"},
		{"of another kind, of which nothing is known", controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition, "", "", "",
			"EtcdPodHealthy"},
		{"required", "Theirs", "A B", "A B", "Mine", "Theirs A B Mine"},
		{"required and the user's", "", "A", "", "A Mine", "A Mine"},
		{"not required any more", "Theirs A B", "A", "A B", "", "Theirs A"},
		{"not required, and the user's", "A", "", "A", "A", "A"},
	} {
		p := newPlain()
		list := func(text string) (gates []clusterv1.MachineReadinessGate) {
			for _, condition := range strings.Fields(text) {
				gates = append(gates, clusterv1.MachineReadinessGate{ConditionType: condition})
			}
			return gates
		}
		p.m.Machine.Spec.ReadinessGates, p.w.ReadinessGates = list(r.has), list(r.users)
		p.w.RequiredGates, p.w.RetiredGates = strings.Fields(r.required), strings.Fields(r.retired)
		c := p.w.InPlace("demo", p.m)
		if got := gates(c); got != r.want {
			t.Errorf("%s: %q, want %q", r.name, got, r.want)
		}
	}
}

// TestKeepsProviderSpec: the record of an inline value is neither removed nor
// listed, even if somebody claims that it came from the template.
func TestKeepsProviderSpec(t *testing.T) {
	p := newPlain()
	p.m.Infrastructure.SetAnnotations(map[string]string{ProviderSpecAnnotation: "1", OriginAnnotation: `{"annotations":["` +
		ProviderSpecAnnotation + `"]}`})
	if got := p.w.InPlace("demo", p.m).Infrastructure.Annotations; !maps.Equal(got, map[string]string{ProviderSpecAnnotation: "1"}) {
		t.Errorf("the annotations become %v", got)
	}
}

// TestBootstrapCertificates: the annotation of a bootstrap object of any provider counts.
func TestBootstrapCertificates(t *testing.T) {
	p := newPlain()
	if end := p.m.CertificatesEnd(); !end.IsZero() {
		t.Errorf("it ends %s", end)
	}
	p.m.Bootstrap.SetAnnotations(map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: "2026-05-12T12:00:00Z"})
	if end := p.m.CertificatesEnd(); end.Day() != 12 {
		t.Errorf("it ends %s", end)
	}
}

// TestKubeadm: the core of a KubeadmControlPlane is what the others are.
func TestKubeadm(t *testing.T) {
	s := templated()
	w := Kubeadm(s.KubeadmControlPlane)
	if got, want := text(tree(w.InPlace("demo", s.Machine))), text(tree(s.inPlace())); got != want {
		t.Errorf("it carries\n%s\nwant\n%s", got, want)
	}
	w.Version = "v1.36.3"
	if got := said(w.Compare(s.Machine)); got != "spec.version: v1.35.4, wanted v1.36.3" {
		t.Errorf("it says %s", got)
	}
	if w.WatchFilter != nil || w.Inline != nil || w.Bootstrap.IsDefined() || w.DataSecret != "" {
		t.Errorf("it wants %+v", w)
	}
}
