package observe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SameOwner reports whether two references to an owner say the same of whose something is.
func SameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Kind == b.Kind && a.Name == b.Name && a.APIVersion == b.APIVersion &&
		ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false)
}
