package v1alpha1

// Reasons of the conditions of LocalClusters and LocalMachines. Those of BootstrapSucceeded and Ready that end
// in Failed or Unsupported are final: nothing but another machine helps. No other reason ends so. BootstrapSucceeded has, for a machine
// that cannot join, the reasons of internal/cluster/joinfailure too, such as TokenExpired: these are final as well, and Ready has
// BootstrapFailed then.
const (
	// WaitingForOwnerReason: Cluster API has not yet said which Cluster or Machine the object belongs to.
	WaitingForOwnerReason = "WaitingForOwner"
	// DeletingReason: the object is being deleted; the message says what that waits for.
	DeletingReason = "Deleting"

	// EndpointServedReason: connections to the endpoint are taken.
	EndpointServedReason = "EndpointServed"
	// EndpointNotServedReason: connections to the endpoint cannot be taken, or the host cannot be given its address.
	EndpointNotServedReason = "EndpointNotServed"
	// EndpointInvalidReason: spec.controlPlaneEndpoint cannot be an endpoint on this host.
	EndpointInvalidReason = "EndpointInvalid"
	// EndpointInUseReason: somebody else has the address; the message names who.
	EndpointInUseReason = "EndpointInUse"
	// NoAddressReason: the environment's network, or the cluster's pod network, has no address left, or cannot be used; or none of those that
	// spec.addresses names is free.
	NoAddressReason = "NoAddress"

	// WaitingForClusterReason: the infrastructure of the cluster is not provisioned yet.
	WaitingForClusterReason = "WaitingForClusterInfrastructure"
	// SpecInvalidReason: name, version or addresses cannot be those of a local machine.
	SpecInvalidReason = "SpecInvalid"
	// NameInUseReason: a machine on this host that was not made for this LocalMachine has the name; it is left alone.
	NameInUseReason = "NameInUse"
	// DelayedReason: the machine is made later, as an annotation asks for.
	DelayedReason = "Delayed"
	// BuildingReason: what runs on the machine is being built.
	BuildingReason = "Building"
	// NotBuiltReason: what runs on the machine cannot be had.
	NotBuiltReason = "NotBuilt"
	// ResourcesNotFreeReason: the host has not got what spec.resources asks for; the message says what is free. It is asked again.
	ResourcesNotFreeReason = "ResourcesNotFree"
	// StartingReason: the machine was started, and containerd does not answer yet.
	StartingReason = "Starting"
	// NotStartedReason: the machine could not be started.
	NotStartedReason = "NotStarted"
	// RunningReason: the machine runs and containerd answers.
	RunningReason = "Running"
	// StoppedReason: somebody powered the machine off.
	StoppedReason = "Stopped"
	// FrozenReason: somebody paused the machine.
	FrozenReason = "Frozen"
	// PartitionedReason: somebody cut the machine's link.
	PartitionedReason = "Partitioned"
	// DiedReason: the machine's first process has ended by itself.
	DiedReason = "Died"
	// VanishedReason: nothing is left of the machine.
	VanishedReason = "Vanished"

	// WaitingForBootstrapDataReason: the Machine names no bootstrap data yet.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// BootstrapRunningReason: the bootstrap data is being executed.
	BootstrapRunningReason = "BootstrapRunning"
	// BootstrapSucceededReason: all of the bootstrap data was executed.
	BootstrapSucceededReason = "BootstrapSucceeded"
	// BootstrapFailedReason: a command of the bootstrap data failed; the message has it, and the end of what it printed. Of Ready it is also
	// the reason for a machine that cannot join.
	BootstrapFailedReason = "BootstrapFailed"
	// BootstrapDataUnsupportedReason: the bootstrap data has another format, or a directive that local machines cannot carry out.
	BootstrapDataUnsupportedReason = "BootstrapDataUnsupported"
)
