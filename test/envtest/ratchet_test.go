package envtest

import (
	"context"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ratcheted: a control plane that was made before the rules, or by a controller without them, can be edited, as long
// as its number of machines does not become worse.
func ratcheted(t *testing.T, c client.Client) {
	withoutRules(t, c, func() {
		makeUnruly(t, c)
	})
	resize(t, c)
}

// makeUnruly makes control planes with numbers of machines that are not accepted.
func makeUnruly(t *testing.T, c client.Client) {
	t.Helper()
	for name, replicas := range map[string]string{"nine": "replicas: 9", "four": "replicas: 4", "none": "replicas: 0#external"} {
		o := object(t, changed(controlPlane, "replicas: 3", replicas))
		o.SetName(name)
		create(t, c, o)
		t.Cleanup(func() { remove(t, c, o) })
	}
}

// resize changes what was made before the rules.
func resize(t *testing.T, c client.Client) {
	for _, row := range []struct{ name, patch, refusal string }{
		{"nine", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"nine", `{"spec":{"version":"v1.36.4"}}`, ""},
		{"nine", `{"spec":{"replicas":11}}`, "replicas is 11: stacked etcd is supported with 1, 3, 5 or 7 members"},
		{"nine", `{"spec":{"replicas":8}}`, "replicas is 8: a control plane with stacked etcd needs an odd number"},
		{"nine", `{"spec":{"replicas":-1}}`, "spec.replicas: Invalid value: -1"},
		{"nine", `{"spec":{"replicas":7}}`, ""},
		{"nine", `{"spec":{"replicas":9}}`, "replicas is 9: stacked etcd is supported with 1, 3, 5 or 7 members"},
		{"four", `{"spec":{"version":"v1.36.4"}}`, ""},
		{"four", `{"spec":{"replicas":2}}`, "replicas is 2"},
		{"four", `{"spec":{"replicas":5}}`, ""},
		{"none", `{"spec":{"version":"v1.36.4"}}`, ""},
		{"none", `{"spec":{"replicas":-1}}`, "spec.replicas: Invalid value: -1"},
		{"none", `{"spec":{"replicas":2}}`, ""},
		{"none", `{"spec":{"replicas":0}}`, "replicas is 0"},
	} {
		t.Run(row.name+" "+row.patch, func(t *testing.T) {
			o := object(t, controlPlane)
			o.SetName(row.name)
			wantRefusal(t, c.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", []byte(row.patch))), row.refusal)
		})
	}
}

// withoutRules does something while the schema of the kind holds no rules, as that of older versions.
func withoutRules(t *testing.T, c client.Client, do func()) {
	t.Helper()
	const name = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"
	rules := map[string]apiextensionsv1.ValidationRules{}
	ruled(t, c, name, func(version string, spec *apiextensionsv1.JSONSchemaProps) {
		rules[version], spec.XValidations = spec.XValidations, nil
	})
	served(t, c, "")
	do()
	ruled(t, c, name, func(version string, spec *apiextensionsv1.JSONSchemaProps) { spec.XValidations = rules[version] })
	served(t, c, "replicas is 2")
}

// ruled changes the schemas of a kind's spec.
func ruled(t *testing.T, c client.Client, name string, change func(version string, spec *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(context.Background(), client.ObjectKey{Name: name}, definition); err != nil {
		t.Fatal(err)
	}
	before := definition.DeepCopy()
	for _, version := range definition.Spec.Versions {
		all := version.Schema.OpenAPIV3Schema.Properties
		spec := all["spec"]
		change(version.Name, &spec)
		all["spec"] = spec
	}
	if err := c.Patch(context.Background(), definition, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// served waits until the API server accepts an even number of replicas, or refuses it.
func served(t *testing.T, c client.Client, refusal string) {
	t.Helper()
	accepted(t, c, object(t, changed(controlPlane, "replicas: 3", "replicas: 2")), refusal == "")
}

// accepted waits until the API server accepts the creation of an object, or refuses it.
func accepted(t *testing.T, c client.Client, o *unstructured.Unstructured, want bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, o.DeepCopy(), client.DryRunAll)
		return (err == nil) == want, nil
	})
	if err != nil {
		t.Fatalf("the changed schema is not served: %v", err)
	}
}
