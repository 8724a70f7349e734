package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// objects are those of an archive, in the order of their files' names.
type objects struct {
	all []*unstructured.Unstructured
	// taken are those that were returned by take.
	taken map[*unstructured.Unstructured]bool
}

// heldBy reads the objects of an archive.
func heldBy(files map[string][]byte) (objects, error) {
	held := objects{taken: map[*unstructured.Unstructured]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, objectsFolder) {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(files[name], &o.Object); err != nil {
			return held, fmt.Errorf("reading file %s: %w", name, err)
		}
		if o.GetKind() == "" || o.GetName() == "" {
			continue // archives of before have objects without their kind
		}
		held.all = append(held.all, o)
	}
	return held, nil
}

// errOld says why an object may be missing, and what to do.
const errOld = "it was taken by a version of Quorate that stored no such object, or the object was not there: take a newer backup"

// only reads the one object of a kind.
func (h objects) only(kind, group string, into any) error {
	found := h.ofKind(kind, group)
	if len(found) != 1 {
		return fmt.Errorf("it holds %d objects of kind %s: %s", len(found), kind, errOld)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, found[0].GetName(), err)
	}
	return nil
}

// ofKind returns the objects of a kind.
func (h objects) ofKind(kind, group string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(h.all), func(o *unstructured.Unstructured) bool {
		return o.GetKind() != kind || o.GroupVersionKind().Group != group
	})
}

// named is an object that another one names.
type named struct {
	by    string
	field machine.Ref
	ref   clusterv1.ContractVersionedObjectReference
}

// take returns the object that is named; none if it was returned before. The error says that it is missing, or of a kind that the field may
// not name: a user who can write into the store chose it.
func (h objects) take(n named) ([]*unstructured.Unstructured, error) {
	if !n.ref.IsDefined() {
		return nil, nil
	}
	if err := n.field.Check(n.ref.GroupKind()); err != nil {
		return nil, fmt.Errorf("%s: %w", n.by, err)
	}
	for _, o := range h.all {
		if o.GetKind() != n.ref.Kind || o.GetName() != n.ref.Name || o.GroupVersionKind().Group != n.ref.APIGroup {
			continue
		}
		if h.taken[o] {
			return nil, nil
		}
		h.taken[o] = true
		return []*unstructured.Unstructured{o}, nil
	}
	return nil, fmt.Errorf("it holds no %s %s, which %s names: %s", n.ref.Kind, n.ref.Name, n.by, errOld)
}
