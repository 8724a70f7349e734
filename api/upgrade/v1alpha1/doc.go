// Package v1alpha1 holds the kinds of upgrades in place: NodeUpgrade changes the components of one node without another machine,
// ControlPlaneUpgrade those of a control plane, one node after the other, MachineDeploymentUpgrade those of workers. It knows schemas and
// defaults, no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=upgrade.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of upgrades in place, and this version.
var GroupVersion = schema.GroupVersion{Group: "upgrade.cluster.x-k8s.io", Version: "v1alpha1"}

// NeededAnnotation on a control plane or MachineDeployment says that machines are behind, and that somebody other than Quorate
// upgrades them in place: policy External. Its value is the wanted Kubernetes version.
const NeededAnnotation = "controlplane.cluster.x-k8s.io/in-place-upgrade-needed"

// PolicyAnnotation on a MachineDeployment says which of its machines that are behind are changed in place: Never (the default), Preferred,
// Only or External, as spec.inPlace.policy says it of control planes. It needs the rollout strategy OnDelete. With any other Cluster API
// replaces them, or asks Quorate's Runtime Extension first, if that is registered, which heeds it on MachineSets and on the Machines of
// control planes.
const PolicyAnnotation = "upgrade.cluster.x-k8s.io/in-place-policy"

// MaxUnavailableAnnotation on a MachineDeployment is how many of its machines may be away at once while they are upgraded in place.
// Defaults to 1.
const MaxUnavailableAnnotation = "upgrade.cluster.x-k8s.io/max-unavailable"

// DrainPolicyAnnotation on a MachineDeployment reports whether pods leave a node before it is upgraded in place: Never, BestEffort (the
// default) or Required, as spec.inPlace.drain.policy says it of control planes. Quorate's Runtime Extension reads it from Machines.
const DrainPolicyAnnotation = "upgrade.cluster.x-k8s.io/drain-policy"

// DrainTimeoutAnnotation beside DrainPolicyAnnotation is how many seconds draining one node may take, from 1 to 86400. Defaults to 300.
const DrainTimeoutAnnotation = "upgrade.cluster.x-k8s.io/drain-timeout-seconds"

// PrepareAnnotation on an infrastructure machine says that its provider brings images to the node itself, because the
// node has no registry. The upgrade waits until the provider has set the condition UpgraderAvailable or ImagesAvailable of the NodeUpgrade.
const PrepareAnnotation = "upgrade.cluster.x-k8s.io/prepares-images"

// RetryAnnotation on a NodeUpgrade that failed has it tried again. It is removed when that begins. Its value does not matter.
const RetryAnnotation = "upgrade.cluster.x-k8s.io/retry"

// RecordedAnnotation on a NodeUpgrade says that its Machine's objects tell of what it did: it is kept for people to read, and
// decides nothing any more. Its value is when that was written, as RFC 3339 has it.
const RecordedAnnotation = "upgrade.cluster.x-k8s.io/recorded"

// BegunAnnotation on a NodeUpgrade says that its first pod was made, or is about to be. A move to another management cluster and a backup
// keep it, and not the status. Its value is by what the node knows the upgrade, a dot, and a hash of the spec that was begun: a copy with
// another spec has not begun.
const BegunAnnotation = "upgrade.cluster.x-k8s.io/begun"

// CompletedAnnotation on a NodeUpgrade says that its node ran what is wanted, and that nothing of it is left in the managed cluster; kept
// as BegunAnnotation is. Its value is a hash of the spec.
const CompletedAnnotation = "upgrade.cluster.x-k8s.io/completed"

// WantedLabel on a NodeUpgrade or ControlPlaneUpgrade identifies what the control plane wanted when it was made.
const WantedLabel = "upgrade.cluster.x-k8s.io/wanted"

// MachineHeldAnnotation on a Machine names the NodeUpgrade that keeps the MachineHealthCheck from it, by Cluster API's annotation
// skip-remediation, which goes with it.
const MachineHeldAnnotation = "upgrade.cluster.x-k8s.io/skips-remediation"

// Finalizer holds a NodeUpgrade until nothing of it is left in the managed cluster.
const Finalizer = "upgrade.cluster.x-k8s.io/nodeupgrade"

// Conditions of upgrades.
const (
	// ImagesAvailable: the upgrader's image, and those of the new version, are on the node. Set by an
	// infrastructure provider that says so by PrepareAnnotation.
	ImagesAvailable = "ImagesAvailable"
	// UpgraderAvailable: the upgrader's image is on the node, and those of the new version follow. A provider that brings images may set it,
	// so that the upgrade begins, and waits on the node for the others, before ImagesAvailable.
	UpgraderAvailable = "UpgraderAvailable"
	// Completed: the node, or all of them, run what is wanted, and were verified.
	Completed = "Completed"
	// Progressing: an upgrade is under way. False: it ended, waits or failed; the reason says which.
	Progressing = "Progressing"
)

// Reasons of a step's condition, beside Running, Failed, RolledBack and Done.
const (
	// Pending: the step has not begun.
	Pending = "Pending"
	// Skipped: there was nothing to do.
	Skipped = "Skipped"
	// Interrupted: the step was cut off, and is begun again.
	Interrupted = "Interrupted"
)

// Reasons of the condition Progressing.
const (
	// WaitingForImages: the infrastructure provider brings images to the node.
	WaitingForImages = "WaitingForImages"
	// WaitingForNode: another node of the same control plane is being upgraded.
	WaitingForNode = "WaitingForNode"
	// WaitingForUpgrader: no image is set that upgrades a node to the version.
	WaitingForUpgrader = "WaitingForUpgrader"
	// WaitingForFiles: a secret that a file of the control plane refers to is not there.
	WaitingForFiles = "WaitingForFiles"
	// WaitingForMachine: the Machine, its Node or its cluster's API server is not there.
	WaitingForMachine = "WaitingForMachine"
	// WaitingForRoom: the node is to be drained, its pods must leave, and some fit on no other node.
	WaitingForRoom = "WaitingForRoom"
	// Running: the upgrader works on the node.
	Running = "Running"
	// Paused: a person holds it; a step that has begun is finished.
	Paused = "Paused"
	// Failed: a step failed, and the node was left, or put back, as it was. The message names the step and what to do.
	Failed = "Failed"
	// RolledBack: the new version did not come up, and the node runs the old one again.
	RolledBack = "RolledBack"
	// Done: nothing is left to do.
	Done = "Done"
)

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&NodeUpgrade{}, &NodeUpgradeList{},
		&ControlPlaneUpgrade{}, &ControlPlaneUpgradeList{},
		&MachineDeploymentUpgrade{}, &MachineDeploymentUpgradeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
