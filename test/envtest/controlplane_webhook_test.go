package envtest

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hookedMachines are changes of machines that the webhook answers for.
var hookedMachines = []row{
	{"as it is", "", "", ""},
	{"a selector that cannot be", "replicas: 3", "selector: {matchExpressions: [{key: a, operator: Near}]}",
		`spec.selector.matchExpressions[0].operator: Invalid value: "Near"`},
	{"a label that cannot be", "{a: b}", "{a: b c}", `spec.machineTemplate.metadata.labels: Invalid value: "b c"`},
	{"names of machines", "replicas: 3", "machineNaming: {template: '{{ .controlPlane.name }}-x-{{ .random }}'}", ""},
	{"names without a number", "replicas: 3", "machineNaming: {template: x}", "spec.machineNaming.template: Invalid value"},
	{"a version that there cannot be", "v1.36.3", "v1.36.99999", "spec.version: Invalid value"},
}

// hookedTemplates are changes of machinesTemplate that the webhook answers for.
var hookedTemplates = []row{
	{"as it is", "", "", ""},
	{"a label that cannot be", "{a: b}", "{a: b c}", `spec.template.metadata.labels: Invalid value: "b c"`},
	{"a machine with a namespace", "joins: {maxParallel: 3}",
		"providerSpec: {value: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine, metadata: {namespace: here}}}",
		"spec.template.spec.providerSpec.value.metadata: Invalid value"},
	{"one machine", "joins: {maxParallel: 3}",
		"providerSpec: {value: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine, spec: {providerID: x}}}",
		"spec.template.spec.providerSpec.value.spec.providerID: Invalid value"},
}

// changedTemplate: a template's spec stays as it is, except for a dry run of Cluster API's topology controller.
func changedTemplate(t *testing.T, c client.Client) {
	template := object(t, machinesTemplate)
	create(t, c, template)
	t.Cleanup(func() { remove(t, c, template) })
	const annotated = `"metadata":{"annotations":{"topology.cluster.x-k8s.io/dry-run":""}},`
	for _, row := range []struct {
		name, patch string
		options     []client.PatchOption
		refusal     string
	}{
		{"a label", `{"spec":{"template":{"metadata":{"labels":{"a":"c"}}}}}`, nil, ""},
		{"joins", `{"spec":{"template":{"spec":{"joins":{"maxParallel":1}}}}}`, nil,
			"spec.template.spec: Forbidden: it is immutable: create another template"},
		{"a dry run", `{` + annotated + `"spec":{"template":{"spec":{"joins":{"maxParallel":1}}}}}`, []client.PatchOption{client.DryRunAll}, ""},
		{"no dry run", `{` + annotated + `"spec":{"template":{"spec":{"joins":{"maxParallel":1}}}}}`, nil, "spec.template.spec: Forbidden"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := c.Patch(context.Background(), template.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(row.patch)),
				row.options...)
			wantRefusal(t, err, row.refusal)
		})
	}
}
