package v1beta2

// InPlacePolicy says what happens to machines that are not as their control plane wants them.
//
// +kubebuilder:validation:Enum=Never;Preferred;Only;External
type InPlacePolicy string

// The values of InPlacePolicy.
const (
	// InPlaceNever replaces them. It is the default.
	InPlaceNever InPlacePolicy = "Never"
	// InPlacePreferred changes them in place, and replaces those that differ in a field that cannot be changed in place.
	InPlacePreferred InPlacePolicy = "Preferred"
	// InPlaceOnly changes them in place and never replaces a machine: what cannot be changed in place, and a machine that breaks, wait for a person.
	InPlaceOnly InPlacePolicy = "Only"
	// InPlaceExternal leaves them to somebody else, who is told by an annotation of the control plane, and replaces none of them.
	InPlaceExternal InPlacePolicy = "External"
)

// InPlaceSpec says whether machines are changed in place.
//
// +kubebuilder:validation:MinProperties=1
type InPlaceSpec struct {
	// policy says what happens to machines that are behind. Never: they are replaced. Preferred: they are changed in place; those that differ in a field
	// that cannot be changed in place are replaced. Only: they are changed in place, and none is ever replaced. External: somebody else changes them, whom the
	// annotation controlplane.cluster.x-k8s.io/in-place-upgrade-needed of the control plane tells to. Another infrastructure template is followed
	// by new machines only. Defaults to Never.
	// +optional
	Policy InPlacePolicy `json:"policy,omitempty"`
}
