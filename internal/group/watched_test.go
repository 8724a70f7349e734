package group

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// thing is an object of a provider's kind as it is in a test: its version, generation, labels and whether it is owned.
func thing(version string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "provider.example", Version: "v1", Kind: "Thing"})
	u.SetNamespace("default")
	u.SetName("a")
	u.SetResourceVersion(version)
	u.SetGeneration(1)
	u.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner", UID: "1"}})
	if change != nil {
		change(u)
	}
	return u
}
