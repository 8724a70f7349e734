package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
)

// machinesRow is a change of a ControlPlane's spec, and of what a template's spec has of it, and what its refusal says.
type machinesRow struct {
	name    string
	change  func(*controlplanev1alpha1.CommonSpec, *clusterv1.ObjectMeta, *[]clusterv1.MachineTaint)
	refusal string
}

func machinesRows() []machinesRow {
	type (
		common = controlplanev1alpha1.CommonSpec
		meta   = clusterv1.ObjectMeta
		taints = []clusterv1.MachineTaint
	)
	selector := func(s *metav1.LabelSelector) func(*common, *meta, *taints) {
		return func(c *common, _ *meta, _ *taints) { c.Selector = s }
	}
	naming := func(template string) func(*common, *meta, *taints) {
		return func(c *common, _ *meta, _ *taints) { c.MachineNaming.Template = template }
	}
	inline := func(value string) func(*common, *meta, *taints) {
		return func(c *common, _ *meta, _ *taints) {
			c.ProviderSpec.Value = &runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"LocalMachine"` + value + `}`)}
		}
	}
	taint := func(key string) func(*common, *meta, *taints) {
		return func(_ *common, _ *meta, all *taints) {
			*all = taints{{Key: "example.com/fine", Effect: corev1.TaintEffectNoSchedule}, {Key: key, Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	return []machinesRow{
		{"as it is", func(*common, *meta, *taints) {}, ""},
		{"a selector", selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}), ""},
		{"a label that cannot be", selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}),
			`selector.matchLabels: Invalid value: "a b"`},
		{"a value that cannot be", selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}), `selector.matchLabels`},
		{"an operator that there is not",
			selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}),
			`selector.matchExpressions[0].operator: Invalid value: "Near"`},
		{"an operator without values",
			selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}}),
			`selector.matchExpressions[0].values: Required value`},

		{"labels", func(_ *common, m *meta, _ *taints) { m.Labels = map[string]string{"a": "b"} }, ""},
		{"a label of machines that cannot be", func(_ *common, m *meta, _ *taints) { m.Labels = map[string]string{"a": "b c"} },
			`machineTemplate.metadata.labels: Invalid value: "b c"`},
		{"an annotation of machines that cannot be", func(_ *common, m *meta, _ *taints) { m.Annotations = map[string]string{"a b": ""} },
			`machineTemplate.metadata.annotations: Invalid value: "a b"`},

		{"names", naming("{{ .cluster.name }}-{{ .controlPlane.name }}-{{ .random }}"), ""},
		{"names without a number", naming("{{ .controlPlane.name }}"), "machineNaming.template: Invalid value: \"{{ .controlPlane.name }}\": " +
			"spec.machineNaming.template is \"{{ .controlPlane.name }}\"; it must contain {{ .random }}"},
		{"names with another kind's variable", naming("{{ .kubeadmControlPlane.name }}-{{ .random }}"),
			"it may use .cluster.name, .controlPlane.name and .random"},

		{"a machine given inline", inline(`,"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"},"creationTimestamp":null},"spec":{"cpu":1}`),
			""},
		{"one with a namespace", inline(`,"metadata":{"namespace":"here","labels":{"a":"b"}}`),
			`providerSpec.value.metadata: Invalid value: {"namespace":"here"}: only labels and annotations are accepted`},
		{"one with owners", inline(`,"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}`),
			"only labels and annotations are accepted"},
		{"one with a label that cannot be", inline(`,"metadata":{"labels":{"a":"b c"}}`),
			`providerSpec.value.metadata.labels: Invalid value: "b c"`},
		{"one that is one machine", inline(`,"spec":{"providerID":"local://a"}`),
			`providerSpec.value.spec.providerID: Invalid value: "local://a": none is accepted, as each machine gets one of its own`},
		{"one that is none", inline(`,"spec":[]`), "providerSpec.value: Invalid value: \"{\\\"apiVersion\\\""},

		{"taints", taint("example.com/two"), ""},
		{"out of service", taint("node.kubernetes.io/out-of-service"), ""},
		{"a taint that cannot be", taint("a b"), `machineTemplate.spec.taints[1].key: Invalid value: "a b"`},
		{"the kubelet's taint", taint("node.kubernetes.io/not-ready"), `machineTemplate.spec.taints[1].key: Invalid value: ` +
			`"node.kubernetes.io/not-ready": Cluster API, the kubelet or a cloud's controllers set this taint`},
		{"a cloud's taint", taint("node.cloudprovider.kubernetes.io/uninitialized"), "machineTemplate.spec.taints[1].key"},
		{"Cluster API's taint", taint(clusterv1.NodeUninitializedTaint.Key), "machineTemplate.spec.taints[1].key"},
		{"Cluster API's other taint", taint(clusterv1.NodeOutdatedRevisionTaint.Key), "machineTemplate.spec.taints[1].key"},
		{"kubeadm's former taint", taint("node-role.kubernetes.io/master"), "machineTemplate.spec.taints[1].key"},
	}
}

func machines() *controlplanev1alpha1.ControlPlane {
	cp := &controlplanev1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "cp"}}
	cp.Spec.Version = "v1.36.3"
	cp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind: "LocalMachineTemplate", Name: "cp"}
	return cp
}

// withTaints turns the feature on that taints of Machines need, or off.
func withTaints(t *testing.T, on bool) {
	t.Helper()
	set := func(on bool) {
		if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.MachineTaintPropagation): on}); err != nil {
			t.Fatal(err)
		}
	}
	before := feature.Gates.Enabled(feature.MachineTaintPropagation)
	set(on)
	t.Cleanup(func() { set(before) })
}

func TestMachines(t *testing.T) {
	withTaints(t, true)
	var v ControlPlane
	for _, row := range machinesRows() {
		cp := machines()
		row.change(&cp.Spec.CommonSpec, &cp.Spec.MachineTemplate.ObjectMeta, &cp.Spec.MachineTemplate.Spec.Taints)
		_, err := v.ValidateCreate(t.Context(), cp)
		want(t, row.name+", created", err, row.refusal)
		_, err = v.ValidateUpdate(t.Context(), machines(), cp)
		want(t, row.name+", updated", err, row.refusal)
		// What is stored already is not refused again.
		after := cp.DeepCopy()
		after.Spec.Replicas = ptr.To[int32](5)
		_, err = v.ValidateUpdate(t.Context(), cp, after)
		want(t, row.name+", stored", err, "")
	}
	_, err := v.ValidateDelete(t.Context(), machines())
	want(t, "deleted", err, "")
}

// TestMachinesVersion: the schema leaves open how large a version's numbers are.
func TestMachinesVersion(t *testing.T) {
	for version, refusal := range map[string]string{"": "", "v1.36.3": "", "v1.36.99999": `spec.version: Invalid value: "v1.36.99999": ` +
		`version "v1.36.99999" is not one like v1.36.3`} {
		cp := machines()
		cp.Spec.Version = version
		_, err := (&ControlPlane{}).ValidateCreate(t.Context(), cp)
		want(t, version, err, refusal)
		_, err = (&ControlPlane{}).ValidateUpdate(t.Context(), cp, cp)
		want(t, version+", stored", err, "")
		_, err = (&ControlPlane{}).ValidateUpdate(t.Context(), cp, &controlplanev1alpha1.ControlPlane{})
		want(t, version+", taken away", err, "")
	}
}

// TestMachinesTaintsFeature: Cluster API takes Machines with taints only with the feature.
func TestMachinesTaintsFeature(t *testing.T) {
	withTaints(t, false)
	cp := machines()
	_, err := (&ControlPlane{}).ValidateCreate(t.Context(), cp)
	want(t, "none", err, "")
	cp.Spec.MachineTemplate.Spec.Taints = []clusterv1.MachineTaint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	_, err = (&ControlPlane{}).ValidateCreate(t.Context(), cp)
	want(t, "one", err, "spec.machineTemplate.spec.taints: Forbidden: taints are accepted only with Cluster API's feature gate "+
		"MachineTaintPropagation")
	_, err = (&ControlPlane{}).ValidateUpdate(t.Context(), cp, machines())
	want(t, "taken away", err, "")
}

func TestMachinesTemplate(t *testing.T) {
	withTaints(t, true)
	var v ControlPlaneTemplate
	for _, row := range machinesRows() {
		made := &controlplanev1alpha1.ControlPlaneTemplate{}
		s := &made.Spec.Template.Spec
		row.change(&s.CommonSpec, &s.MachineTemplate.ObjectMeta, &s.MachineTemplate.Spec.Taints)
		_, err := v.ValidateCreate(t.Context(), made)
		want(t, row.name, err, row.refusal)
		if row.refusal != "" {
			want(t, row.name, err, "spec.template.spec.")
		}
	}
	_, err := v.ValidateDelete(t.Context(), &controlplanev1alpha1.ControlPlaneTemplate{})
	want(t, "deleted", err, "")
}

func TestMachinesTemplateUpdate(t *testing.T) {
	type template = controlplanev1alpha1.ControlPlaneTemplate
	const immutable = "spec.template.spec: Forbidden: it is immutable: create another template, and refer to that in the ClusterClass"
	dry := func(o *template) { o.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""} }
	joins := func(o *template) { o.Spec.Template.Spec.Joins.MaxParallel = ptr.To[int32](2) }
	for _, row := range []struct {
		name    string
		change  func(*template)
		dryRun  *bool
		refusal string
	}{
		{"nothing", func(*template) {}, nil, ""},
		{"a label", func(o *template) { o.Labels = map[string]string{"a": "b"} }, nil, ""},
		{"a label of the control plane", func(o *template) { o.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"} }, nil, ""},
		{"a label that cannot be", func(o *template) { o.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b c"} }, nil,
			"spec.template.metadata.labels"},
		{"joins", joins, nil, immutable},
		{"a label of machines", func(o *template) {
			o.Spec.Template.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"a": "b"}
		}, nil, immutable},
		{"joins, with the annotation", func(o *template) { joins(o); dry(o) }, nil, immutable},
		{"joins, as a dry run", joins, ptr.To(true), immutable},
		{"joins, as a dry run of the topology controller", func(o *template) { joins(o); dry(o) }, ptr.To(true), ""},
	} {
		before, after := &template{}, &template{}
		row.change(after)
		ctx := admission.NewContextWithRequest(t.Context(), admission.Request{})
		if row.dryRun != nil {
			r := admission.Request{}
			r.DryRun = row.dryRun
			ctx = admission.NewContextWithRequest(t.Context(), r)
		}
		_, err := (&ControlPlaneTemplate{}).ValidateUpdate(ctx, before, after)
		want(t, row.name, err, row.refusal)
	}
	made := &template{}
	made.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b c"}
	_, err := (&ControlPlaneTemplate{}).ValidateCreate(t.Context(), made)
	want(t, "created with a label that cannot be", err, "spec.template.metadata.labels")
}
