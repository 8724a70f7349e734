package v1beta2

import "k8s.io/apimachinery/pkg/api/resource"

// The defaults of spec.etcdMaintenance.defragment, where it is set.
const (
	DefaultFreePercent = 45
	DefaultMinSize     = 100 << 20
)

// EtcdMaintenanceSpec says how the members of etcd are tended while nothing is wrong with them.
//
// +kubebuilder:validation:MinProperties=1
type EtcdMaintenanceSpec struct {
	// defragment has members give back the space that their data do not need, one after the other, the leader last after it has handed over.
	// It happens only while all machines are healthy, nothing else is under way, a voter can be spared and a window of approval is open. A
	// member does not answer meanwhile. Defaults to none: members are defragmented when etcd raises NOSPACE, or a person requests it. {} has
	// the defaults of its fields.
	// +optional
	Defragment *DefragmentSpec `json:"defragment,omitempty"`
}

// DefragmentSpec says when a member is defragmented.
type DefragmentSpec struct {
	// freePercent is how many percent of the space that a member's data take they do not need at least. Defaults to 45.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	FreePercent *int32 `json:"freePercent,omitempty"`
	// minSize is how much space a member's data take at least. Defaults to 100Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",messageExpression="'minSize is ' + string(self) + ': it must not be less than 0'"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// onlyMember reports whether a member that is the only one is defragmented too. Nothing answers meanwhile. Defaults to Keep.
	// +optional
	OnlyMember OnlyMemberPolicy `json:"onlyMember,omitempty"`
}

// OnlyMemberPolicy reports whether a member that is the only one is defragmented.
//
// +kubebuilder:validation:Enum=Keep;Defragment
type OnlyMemberPolicy string

// The values of OnlyMemberPolicy.
const (
	// OnlyMemberKeep leaves it alone. It is the default.
	OnlyMemberKeep OnlyMemberPolicy = "Keep"
	// OnlyMemberDefragment defragments it.
	OnlyMemberDefragment OnlyMemberPolicy = "Defragment"
)
