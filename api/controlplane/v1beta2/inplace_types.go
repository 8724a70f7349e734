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
	// InPlaceOnly changes them in place and never replaces a machine: what cannot be changed in place, and a machine that breaks, wait for a
	// person.
	InPlaceOnly InPlacePolicy = "Only"
	// InPlaceExternal leaves them to another controller, which finds them in an annotation of the control plane, and replaces none of them.
	InPlaceExternal InPlacePolicy = "External"
)

// InPlaceUpdater says who changes machines in place.
//
// +kubebuilder:validation:Enum=Quorate;Extension
type InPlaceUpdater string

// The values of InPlaceUpdater.
const (
	// UpdaterQuorate is Quorate itself, by NodeUpgrades. It is the default.
	UpdaterQuorate InPlaceUpdater = "Quorate"
	// UpdaterExtension is a Runtime Extension that somebody else has registered with Cluster API.
	UpdaterExtension InPlaceUpdater = "Extension"
)

// InPlaceDrainPolicy reports whether pods leave a node before it is upgraded in place.
//
// +kubebuilder:validation:Enum=Never;BestEffort;Required
type InPlaceDrainPolicy string

// The values of InPlaceDrainPolicy.
const (
	// InPlaceDrainNever leaves pods where they are. It is the default: containers keep running while the kubelet restarts.
	InPlaceDrainNever InPlaceDrainPolicy = "Never"
	// InPlaceDrainBestEffort evicts pods, and upgrades the node when the time is over.
	InPlaceDrainBestEffort InPlaceDrainPolicy = "BestEffort"
	// InPlaceDrainRequired evicts pods, and fails when the time is over.
	InPlaceDrainRequired InPlaceDrainPolicy = "Required"
)

// InPlaceDrainSpec says how nodes are drained before they are upgraded in place.
//
// +kubebuilder:validation:MinProperties=1
type InPlaceDrainSpec struct {
	// policy reports whether pods leave a node before its kubelet restarts. Never: they stay, and their containers keep running. BestEffort:
	// they are evicted; those that are left when the time is over stay, and a node whose pods have no room on other nodes is not drained.
	// Required: they are evicted; if some are left when the time is over the upgrade fails and the node is uncordoned. The upgrade waits
	// that long for room on other nodes before it evicts anything. The only node of a cluster is never drained. Defaults to Never.
	// +optional
	Policy InPlaceDrainPolicy `json:"policy,omitempty"`

	// timeoutSeconds is how long draining one node may take. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// InPlaceSpec reports whether machines are changed in place.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.updater) || self.updater != 'Extension' || has(self.policy) && self.policy in ['Preferred', 'Only']",message="updater Extension needs policy Preferred or Only: with Never and External machines are not updated on this control plane's request"
// +kubebuilder:validation:XValidation:rule="!has(self.drain) || !has(self.updater) || self.updater != 'Extension'",fieldPath=".drain",message="inPlace.drain and inPlace.updater Extension exclude one another: an extension decides itself whether it drains; remove inPlace.drain, or set updater Quorate"
type InPlaceSpec struct {
	// policy says what happens to machines that are behind. Never: they are replaced. Preferred: they are changed in place; those that
	// differ in a field that cannot be changed in place are replaced. Only: they are changed in place, and none is ever replaced. External:
	// another program changes them when the control plane has the annotation controlplane.cluster.x-k8s.io/in-place-upgrade-needed. Another
	// infrastructure template applies to new machines only. Defaults to Never.
	// +optional
	Policy InPlacePolicy `json:"policy,omitempty"`

	// updater says who changes machines in place, with the policies Preferred and Only. Quorate: it does so itself, and the policy decides
	// about what it cannot change in place. Extension: a Runtime Extension of another vendor makes the whole change, and Quorate makes none.
	// For each machine that is behind, Quorate asks the extension's hook CanUpdateMachine whether it changes all that differs,
	// infrastructure included. Cluster API then calls UpdateMachine for one machine after the other. Extension needs Cluster API's feature
	// gates RuntimeSDK and InPlaceUpdates. While no extension answers, machines are neither changed nor replaced. Defaults to Quorate.
	// +optional
	Updater InPlaceUpdater `json:"updater,omitempty"`

	// drain reports whether pods leave a node before Quorate upgrades it in place, and how long that may take.
	// +optional
	Drain InPlaceDrainSpec `json:"drain,omitempty,omitzero"`
}
