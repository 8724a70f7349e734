package hints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestVersionMoved(t *testing.T) {
	at := func(spec, status string) client.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}
		for field, value := range map[string]string{"spec": spec, "status": status} {
			if value != "" {
				if err := unstructured.SetNestedField(u.Object, value, field, "version"); err != nil {
					t.Fatal(err)
				}
			}
		}
		return u
	}
	for _, c := range []struct {
		name          string
		before, after client.Object
		want          bool
	}{
		{"nothing", at("v1", ""), at("v1", ""), false},
		{"the first machine is up", at("v1", ""), at("v1", "v1"), true},
		{"another version is wanted", at("v1", "v1"), at("v2", "v1"), true},
		{"it is reached", at("v2", "v1"), at("v2", "v2"), true},
		{"another kind of object", &corev1.Secret{}, &corev1.Secret{}, false},
	} {
		if got := versionMoved(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestRefersTo(t *testing.T) {
	obj := untyped(schema.GroupVersion{Group: "g", Version: "v2"}, "Kind")
	obj.SetName("name")
	for ref, want := range map[clusterv1.ContractVersionedObjectReference]bool{
		{APIGroup: "g", Kind: "Kind", Name: "name"}: true, {APIGroup: "h", Kind: "Kind", Name: "name"}: false,
		{APIGroup: "g", Kind: "Other", Name: "name"}: false, {APIGroup: "g", Kind: "Kind", Name: "other"}: false, {}: false,
	} {
		if got := refersTo(ref, obj); got != want {
			t.Errorf("%+v: %t, want %t", ref, got, want)
		}
	}
}
