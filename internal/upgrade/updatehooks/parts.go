package updatehooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Parts are the objects that a machine consists of.
type Parts struct {
	// Machine and Infrastructure must not be nil. Bootstrap is nil where the machine has no such object.
	Machine                   *clusterv1.Machine
	Bootstrap, Infrastructure *unstructured.Unstructured
}

// DeepCopy returns a copy that shares nothing with the parts.
func (p Parts) DeepCopy() Parts {
	return Parts{Machine: p.Machine.DeepCopy(), Bootstrap: p.Bootstrap.DeepCopy(), Infrastructure: p.Infrastructure.DeepCopy()}
}

// Merge returns what the spec of an infrastructure machine becomes when it follows another template. What both templates say differently
// changes, what the new one does not have any more goes, and all else stays, which is the provider's. was is the template that the machine
// was made from, want the wanted one.
func Merge(machine, was, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before, after := templateSpec(was), templateSpec(want)
	current := specOf(machine)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(encode(before), encode(after), encode(current))
	if err != nil {
		return nil, fmt.Errorf("comparing the templates %s and %s: %w", was.GetName(), want.GetName(), err)
	}
	merged, err := jsonpatch.MergePatch(encode(current), patch)
	if err != nil {
		return nil, fmt.Errorf("changing %s %s as template %s says: %w", machine.GetKind(), machine.GetName(), want.GetName(), err)
	}
	return withSpec(machine, merged)
}

// templateSpec is what a template says of the machines that are made from it.
func templateSpec(template *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	return spec
}

// specOf is the spec of an object; nil: it has none.
func specOf(object *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return spec
}

// encode returns a spec as JSON. It was read from JSON, and can be written so.
func encode(spec map[string]any) []byte {
	if spec == nil {
		spec = map[string]any{}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a spec as JSON: %v", err))
	}
	return data
}

// withSpec returns a copy of an object with another spec.
func withSpec(object *unstructured.Unstructured, spec []byte) (*unstructured.Unstructured, error) {
	// unstructured's own decoder reads whole numbers as such, as clients of the API server do.
	read, err := runtime.Decode(unstructured.UnstructuredJSONScheme,
		append(append([]byte(`{"apiVersion":"v1","kind":"Spec","spec":`), spec...), '}'))
	if err != nil {
		return nil, fmt.Errorf("reading the spec of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	after := object.DeepCopy()
	if changed := specOf(read.(*unstructured.Unstructured)); len(changed) > 0 || specOf(object) != nil {
		after.Object["spec"] = changed
	}
	return after, nil
}

// Request is what CanUpdateMachine is asked. The metadata of the parts that are wanted count: labels and annotations follow without an
// update.
func Request(current, desired Parts) *runtimehooksv1.CanUpdateMachineRequest {
	request := &runtimehooksv1.CanUpdateMachineRequest{}
	request.Current.Machine, request.Desired.Machine = requested(current.Machine), requested(desired.Machine)
	request.Current.InfrastructureMachine = raw(current.Infrastructure, desired.Infrastructure)
	request.Desired.InfrastructureMachine = raw(desired.Infrastructure, desired.Infrastructure)
	if current.Bootstrap != nil {
		request.Current.BootstrapConfig = raw(current.Bootstrap, desired.Bootstrap)
		request.Desired.BootstrapConfig = raw(desired.Bootstrap, desired.Bootstrap)
	}
	return request
}

// requested is what of a Machine a request has: no status, and none of what only the API server needs.
func requested(m *clusterv1.Machine) clusterv1.Machine {
	out := clusterv1.Machine{Spec: *m.Spec.DeepCopy()}
	out.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	out.Name, out.Namespace, out.Labels, out.Annotations = m.Name, m.Namespace, m.Labels, m.Annotations
	return out
}

// raw is the same of another object, with the labels and annotations of a second.
func raw(object, carries *unstructured.Unstructured) runtime.RawExtension {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": specOf(object)}}
	out.SetGroupVersionKind(object.GroupVersionKind())
	out.SetName(object.GetName())
	out.SetNamespace(object.GetNamespace())
	out.SetLabels(carries.GetLabels())
	out.SetAnnotations(carries.GetAnnotations())
	return runtime.RawExtension{Object: out}
}

// Apply returns the parts as an answer would leave them: the current ones, changed in what the extension changes in place. Outside of specs
// nothing is taken over.
func Apply(current Parts, answer *runtimehooksv1.CanUpdateMachineResponse) (Parts, error) {
	after := current.DeepCopy()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&current.Machine.Spec)
	if err != nil {
		return Parts{}, fmt.Errorf("encoding the Machine's spec: %w", err)
	}
	machine := &unstructured.Unstructured{Object: map[string]any{"kind": "Machine", "spec": spec}}
	for _, one := range []struct {
		object **unstructured.Unstructured
		patch  runtimehooksv1.Patch
	}{{&machine, answer.MachinePatch}, {&after.Bootstrap, answer.BootstrapConfigPatch},
		{&after.Infrastructure, answer.InfrastructureMachinePatch}} {
		if !one.patch.IsDefined() || *one.object == nil {
			continue
		}
		if *one.object, err = patched(*one.object, one.patch); err != nil {
			return Parts{}, err
		}
	}
	after.Machine.Spec = clusterv1.MachineSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(specOf(machine), &after.Machine.Spec); err != nil {
		return Parts{}, fmt.Errorf("reading the Machine's spec as the extension changes it: %w", err)
	}
	return after, nil
}

// patched returns an object with its spec changed by a patch.
func patched(object *unstructured.Unstructured, patch runtimehooksv1.Patch) (*unstructured.Unstructured, error) {
	whole := encode(map[string]any{"spec": specOf(object)})
	var after []byte
	var err error
	switch patch.PatchType {
	case runtimehooksv1.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch.Patch); err == nil {
			after, err = operations.Apply(whole)
		}
	case runtimehooksv1.JSONMergePatchType:
		after, err = jsonpatch.MergePatch(whole, patch.Patch)
	default:
		err = fmt.Errorf("its type is %q, and must be %s or %s", patch.PatchType, runtimehooksv1.JSONPatchType, runtimehooksv1.JSONMergePatchType)
	}
	var read struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err == nil {
		err = json.Unmarshal(after, &read)
	}
	if err != nil {
		return nil, fmt.Errorf("applying the extension's patch of the %s: %w", object.GetKind(), err)
	}
	if len(read.Spec) == 0 || string(read.Spec) == "null" {
		read.Spec = json.RawMessage("{}")
	}
	return withSpec(object, read.Spec)
}

// Covers returns the fields of an infrastructure machine's spec that an answer does not bring to what is wanted, sorted; none: it covers
// all. Values are not told: what such an object holds is not known here.
func Covers(patched, desired *unstructured.Unstructured) []string {
	return differing("spec", specOf(patched), specOf(desired))
}

// differing returns the paths at which two values of JSON differ.
func differing(path string, a, b any) []string {
	if equality.Semantic.DeepEqual(a, b) || isEmpty(a) && isEmpty(b) {
		return nil
	}
	was, isMap := a.(map[string]any)
	want, too := b.(map[string]any)
	if (isMap || a == nil) && (too || b == nil) {
		return differingFields(path, was, want)
	}
	wasList, isList := a.([]any)
	wantList, too := b.([]any)
	if !isList || !too || len(wasList) != len(wantList) {
		return []string{path}
	}
	var found []string
	for i := range wasList {
		found = append(found, differing(path+"["+strconv.Itoa(i)+"]", wasList[i], wantList[i])...)
	}
	return found
}

func differingFields(path string, was, want map[string]any) []string {
	names := maps.Clone(was)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, want)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		found = append(found, differing(path+"."+name, was[name], want[name])...)
	}
	return found
}

// isEmpty: nothing, or an object with nothing in it.
func isEmpty(v any) bool {
	object, isMap := v.(map[string]any)
	return v == nil || isMap && len(object) == 0
}
