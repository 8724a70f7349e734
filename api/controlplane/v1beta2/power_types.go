package v1beta2

// HibernationAnnotation on a control plane says how far its hibernation is, as JSON: since when it is on its way, and the backup from which
// it wakes. From the moment at which it names a backup the machines go. Quorate writes it; a move and a backup keep it, as status is not.
const HibernationAnnotation = "controlplane.cluster.x-k8s.io/quorate-hibernation"

// HibernatedReplicasAnnotation on a MachineDeployment is how many replicas it had before its cluster hibernated. On a Cluster it is the
// same of the MachineDeployments of its topology that name a number: md-0=3,md-1=2.
const HibernatedReplicasAnnotation = "controlplane.cluster.x-k8s.io/quorate-hibernated-replicas"

// HibernatedCondition reports whether a control plane hibernates: no machine is left, and it wakes from a backup. It is there from the
// first hibernation on.
const HibernatedCondition = "Hibernated"

// Reasons of the condition Hibernated.
const (
	// HibernatedReason is the reason of the condition when it is True.
	HibernatedReason = "Hibernated"
	// HibernatingReason: workers go, a backup is taken, or machines go.
	HibernatingReason = "Hibernating"
	// WakingReason: the control plane is made again, or its workers are not back yet.
	WakingReason = "Waking"
	// RunningReason: the control plane runs again.
	RunningReason = "Running"
)

// PowerState reports whether the machines of a cluster run.
//
// +kubebuilder:validation:Enum=Running;Hibernated
type PowerState string

// The values of PowerState.
const (
	// PowerRunning: the machines run. It is the default.
	PowerRunning PowerState = "Running"
	// PowerHibernated: a verified backup of etcd is stored, and no machine runs.
	PowerHibernated PowerState = "Hibernated"
)
