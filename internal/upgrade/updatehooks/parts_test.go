package updatehooks

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// box is an infrastructure machine with a spec in JSON, or, under spec.template.spec, a template.
func box(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	text := `{"apiVersion":"infra.example/v1","kind":"` + kind + `","metadata":{"name":"x"}`
	switch {
	case kind == "BoxTemplate":
		text += `,"spec":{"template":{"spec":` + spec + `}}}`
	case spec == "":
		text += `}`
	default:
		text += `,"spec":` + spec + `}`
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

// shown is an object's spec in JSON.
func shown(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	data, err := json.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestMerge(t *testing.T) {
	for _, r := range []struct{ name, machine, was, want, after string }{
		{"a value changes", `{"cpu":2,"providerID":"p"}`, `{"cpu":2}`, `{"cpu":4}`, `{"cpu":4,"providerID":"p"}`},
		{"a field comes", `{"providerID":"p"}`, `{}`, `{"disk":{"size":10}}`, `{"disk":{"size":10},"providerID":"p"}`},
		{"a field goes", `{"cpu":2,"disk":{"size":10,"id":"d"}}`, `{"cpu":2,"disk":{"size":10}}`, `{"cpu":2}`, `{"cpu":2}`},
		{"a part of a field goes, and the provider's stays", `{"disk":{"size":10,"id":"d"}}`, `{"disk":{"size":10}}`, `{"disk":{"kind":"ssd"}}`,
			`{"disk":{"id":"d","kind":"ssd"}}`},
		{"a list is replaced", `{"nets":["a","b"]}`, `{"nets":["a","b"]}`, `{"nets":["c"]}`, `{"nets":["c"]}`},
		{"a machine without a spec", ``, `{}`, `{"cpu":4}`, `{"cpu":4}`},
		{"nothing", ``, `{}`, `{}`, `null`},
		{"the same", `{"cpu":2,"x":1.5}`, `{"cpu":2}`, `{"cpu":2}`, `{"cpu":2,"x":1.5}`},
	} {
		t.Run(r.name, func(t *testing.T) {
			machine := box(t, "Box", r.machine)
			before := shown(t, machine)
			after, err := Merge(machine, box(t, "BoxTemplate", r.was), box(t, "BoxTemplate", r.want))
			if err != nil || shown(t, after) != r.after || shown(t, machine) != before {
				t.Errorf("%v: %s, want %s", err, shown(t, after), r.after)
			}
			if again, err := Merge(after, box(t, "BoxTemplate", r.was), box(t, "BoxTemplate", r.want)); err != nil || shown(t, again) != r.after {
				t.Errorf("again: %v, %s", err, shown(t, again))
			}
		})
	}
}

func TestApply(t *testing.T) {
	patch := func(kind runtimehooksv1.PatchType, text string) runtimehooksv1.Patch {
		return runtimehooksv1.Patch{PatchType: kind, Patch: []byte(text)}
	}
	for _, r := range []struct {
		name   string
		answer runtimehooksv1.CanUpdateMachineResponse
		says   string // version, bootstrap, infrastructure
		err    string
	}{
		{name: "nothing", says: `v1 {"a":1} {"cpu":2}`},
		{name: "merge", answer: runtimehooksv1.CanUpdateMachineResponse{MachinePatch: patch("JSONMergePatch", `{"spec":{"version":"v2"}}`),
			InfrastructureMachinePatch: patch("JSONMergePatch", `{"spec":{"cpu":4}}`)},
			says: `v2 {"a":1} {"cpu":4}`},
		{name: "patch", answer: runtimehooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch("JSONPatch",
			`[{"op":"replace","path":"/spec/a","value":2}]`)}, says: `v1 {"a":2} {"cpu":2}`},
		{name: "only specs count", answer: runtimehooksv1.CanUpdateMachineResponse{InfrastructureMachinePatch: patch("JSONMergePatch",
			`{"metadata":{"name":"y"},"status":{},"spec":{"cpu":3}}`)}, says: `v1 {"a":1} {"cpu":3}`},
		{name: "all goes", answer: runtimehooksv1.CanUpdateMachineResponse{InfrastructureMachinePatch: patch("JSONMergePatch", `{"spec":null}`)},
			says: `v1 {"a":1} {}`},
		{name: "no such path", answer: runtimehooksv1.CanUpdateMachineResponse{InfrastructureMachinePatch: patch("JSONPatch",
			`[{"op":"replace","path":"/spec/ram","value":2}]`)}, err: "applying the extension's patch of the Box"},
		{name: "no JSON", answer: runtimehooksv1.CanUpdateMachineResponse{MachinePatch: patch("JSONMergePatch", `{`)},
			err: "patch of the Machine"},
		{name: "no spec", answer: runtimehooksv1.CanUpdateMachineResponse{MachinePatch: patch("JSONMergePatch", `{"spec":{"version":{}}}`)},
			err: "reading the Machine's spec"},
		{name: "another type", answer: runtimehooksv1.CanUpdateMachineResponse{MachinePatch: patch("Strategic", `{}`)},
			err: `its type is "Strategic", and must be JSONPatch or JSONMergePatch`},
	} {
		t.Run(r.name, func(t *testing.T) {
			current := Parts{Machine: &clusterv1.Machine{}, Bootstrap: box(t, "Script", `{"a":1}`), Infrastructure: box(t, "Box", `{"cpu":2}`)}
			current.Machine.Spec.Version = "v1"
			got, err := Apply(current, &r.answer)
			if r.err != "" {
				if err == nil || !strings.Contains(err.Error(), r.err) {
					t.Errorf("error %v, want %q", err, r.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if says := got.Machine.Spec.Version + " " + shown(t, got.Bootstrap) + " " + shown(t, got.Infrastructure); says != r.says ||
				got.Infrastructure.GetName() != "x" {
				t.Errorf("%s, want %s", says, r.says)
			}
			if says := current.Machine.Spec.Version + " " + shown(t, current.Bootstrap) + " " +
				shown(t, current.Infrastructure); says != `v1 {"a":1} {"cpu":2}` {
				t.Errorf("the current parts became %s", says)
			}
		})
	}
	without := Parts{Machine: &clusterv1.Machine{}, Infrastructure: box(t, "Box", `{}`)}
	if got, err := Apply(without, &runtimehooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch("JSONMergePatch", `{}`)}); err != nil ||
		got.Bootstrap != nil {
		t.Errorf("a bootstrap object that is not there: %v, %v", got.Bootstrap, err)
	}
}

func TestCovers(t *testing.T) {
	for _, r := range []struct{ patched, desired, want string }{
		{`{"cpu":2}`, `{"cpu":2}`, ""},
		{``, `{}`, ""},
		{`{"a":{}}`, `{}`, ""},
		{`{"cpu":2,"disk":{"size":1}}`, `{"cpu":4,"disk":{"size":2}}`, "spec.cpu spec.disk.size"},
		{`{}`, `{"disk":{"size":2}}`, "spec.disk.size"},
		{`{"disk":{"size":2}}`, ``, "spec.disk.size"},
		{`{"nets":[{"n":"a"},{"n":"b"}]}`, `{"nets":[{"n":"a"},{"n":"c"}]}`, "spec.nets[1].n"},
		{`{"nets":["a"]}`, `{"nets":["a","b"]}`, "spec.nets"},
		{`{"a":1}`, `{"a":{"b":1}}`, "spec.a"},
	} {
		if got := strings.Join(Covers(box(t, "Box", r.patched), box(t, "Box", r.desired)), " "); got != r.want {
			t.Errorf("%s, %s wanted: %q, want %q", r.patched, r.desired, got, r.want)
		}
	}
}

// TestRequest: a request has neither status nor owners, and what follows without an update is the same on both sides.
func TestRequest(t *testing.T) {
	m := &clusterv1.Machine{}
	m.Name, m.UID = "m", "uid"
	m.Status.Phase = "Running"
	current := Parts{Machine: m, Infrastructure: box(t, "Box", `{"cpu":2}`)}
	desired := current.DeepCopy()
	desired.Infrastructure = box(t, "Box", `{"cpu":4}`)
	desired.Infrastructure.SetAnnotations(map[string]string{"a": "b"})
	data, err := json.Marshal(Request(current, desired))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if strings.Contains(text, "Running") || strings.Contains(text, "uid") || strings.Count(text, `"a":"b"`) != 2 ||
		!strings.Contains(text, `"cpu":2`) || !strings.Contains(text, `"cpu":4`) || strings.Contains(text, "bootstrapConfig") &&
		!strings.Contains(text, `"bootstrapConfig":null`) {
		t.Error(text)
	}
}
