package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ApprovedAnnotation on a control plane of any kind, or an EtcdCluster, holds what a person has approved: the revision that `quorate plan`
// tells. While spec.approval.policy is Required, machines are replaced, or changed in place, for that revision of the spec only. It is
// taken away when all machines are as wanted.
const ApprovedAnnotation = "controlplane.cluster.x-k8s.io/quorate-approved"

// ApprovedByAnnotation beside ApprovedAnnotation holds when that was given, and by which user: 2026-11-23T04:05:06Z jane@example.org.
// Admission writes it, whatever a request says, and it goes with the approval.
const ApprovedByAnnotation = "controlplane.cluster.x-k8s.io/quorate-approved-by"

// ApproveVerb is the verb that a user must have on a control plane, or an EtcdCluster, to approve, and to end that approvals are needed.
const ApproveVerb = "approve"

// ReplacementsAnnotation on a control plane of any kind, or an EtcdCluster, says which of its machines were replaced, or changed in place,
// because of the spec within the last 24 hours, and when that began. An example:
// demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T09:00:00Z. It is written while spec.approval.maxReplacementsPerDay is set, and
// counted against that.
const ReplacementsAnnotation = "controlplane.cluster.x-k8s.io/quorate-replacements"

// ReplaceAnnotation on a control plane of any kind, or an EtcdCluster, asks that machines be replaced as outdated ones are, each with a
// time. An example: demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T09:00:00Z. A machine of that name that was made after its time is
// not meant, and before its time nothing is done. So a value that stays, or is written again, replaces no machine twice.
const ReplaceAnnotation = "controlplane.cluster.x-k8s.io/quorate-replace"

// ReplaceByAnnotation beside ReplaceAnnotation holds when a machine was last added there, and by which user, as ApprovedByAnnotation does.
// Admission writes it, whatever a request says, and it goes with the other.
const ReplaceByAnnotation = "controlplane.cluster.x-k8s.io/quorate-replace-by"

// MaxReplaceLength is how many bytes of ReplaceAnnotation are read. A longer value asks for nothing.
const MaxReplaceLength = 4096

// EtcdRequestsAnnotation on a control plane of any kind, or an EtcdCluster, asks for something to be done about the members of its etcd,
// each request with a time: defragment, disarm, and move-leader/MACHINE. An example:
// defragment=2026-11-23T04:05:06Z,move-leader/demo-cp-2=2026-11-23T04:05:06Z. A request counts for an hour after its time, and not before.
const EtcdRequestsAnnotation = "controlplane.cluster.x-k8s.io/quorate-etcd"

// EtcdRequestsByAnnotation beside EtcdRequestsAnnotation holds when a request was last added there, and by which user, as
// ApprovedByAnnotation does. Admission writes it, whatever a request says, and it goes with the other.
const EtcdRequestsByAnnotation = "controlplane.cluster.x-k8s.io/quorate-etcd-by"

// The requests of EtcdRequestsAnnotation.
const (
	RequestDefragment = "defragment"
	RequestDisarm     = "disarm"
	RequestMoveLeader = "move-leader"
)

// MaxEtcdRequestsLength is how many bytes of EtcdRequestsAnnotation are read. A longer value asks for nothing.
const MaxEtcdRequestsLength = 1024

// ApprovalPolicy reports whether a person must approve before machines are replaced or changed in place.
//
// +kubebuilder:validation:Enum=None;Required
type ApprovalPolicy string

// The values of ApprovalPolicy.
const (
	// ApprovalNone needs no approval. It is the default.
	ApprovalNone ApprovalPolicy = "None"
	// ApprovalRequired waits for a person.
	ApprovalRequired ApprovalPolicy = "Required"
)

// ApprovalSpec reports whether a person must approve before machines are replaced or changed in place, when that may begin, and how many
// are in a day.
//
// +kubebuilder:validation:MinProperties=1
type ApprovalSpec struct {
	// policy reports whether a person must approve a revision of the spec before outdated machines are replaced or changed in place. Required:
	// approve with `quorate approve`, or set the annotation controlplane.cluster.x-k8s.io/quorate-approved to the revision that `quorate
	// plan` prints. Scaling, and the replacement of broken machines, need no approval. Defaults to None.
	// +optional
	Policy ApprovalPolicy `json:"policy,omitempty"`

	// maxReplacementsPerDay is how many machines that are not as the spec wants them are replaced, or changed in place, within 24 hours at
	// most. Then the rollout waits, and says until when. Scaling, the replacement of machines that are broken, and machines that people
	// delete, are neither counted nor held. Where it is not set there is no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxReplacementsPerDay *int32 `json:"maxReplacementsPerDay,omitempty"`

	// windows are when machines that are not as the spec wants them may begin to be replaced or changed in place. What was begun ends.
	// Scaling, and the replacement of machines that are broken, wait for no window. Defaults to any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`

	// frozenUntil is until when no machine begins to be replaced or changed in place because it is not as the spec wants it, also inside of
	// windows.
	// +optional
	FrozenUntil *metav1.Time `json:"frozenUntil,omitempty"`
}

// MaintenanceWindow is a time of the week in which changes may begin.
type MaintenanceWindow struct {
	// days are the days on which the window starts, such as Saturday. Defaults to each day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`

	// start is the time of day at which the window starts, such as 22:30, in timeZone. Where clocks are set forward over it, the window starts
	// as much later; where it comes twice, at the first.
	// +required
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start,omitempty"`

	// length is how long the window is open, such as 4h: from 10m to 168h.
	// +required
	Length metav1.Duration `json:"length,omitempty,omitzero"`

	// timeZone is the time zone of start and of days, such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string
