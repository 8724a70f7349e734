package v1beta2

// ApprovedAnnotation on a control plane of any kind, or an EtcdCluster, holds what a person has approved: the revision that `quorate plan` tells. While
// spec.approval.policy is Required, machines are replaced, or changed in place, for that revision of the spec only. It is taken away when all machines are as wanted.
const ApprovedAnnotation = "controlplane.cluster.x-k8s.io/quorate-approved"

// ApprovedByAnnotation beside ApprovedAnnotation holds when that was given, and by which user: 2026-11-23T04:05:06Z jane@example.org. Admission writes it,
// whatever a request says, and it goes with the approval.
const ApprovedByAnnotation = "controlplane.cluster.x-k8s.io/quorate-approved-by"

// ApproveVerb is the verb that a user must have on a control plane, or an EtcdCluster, to approve, and to end that approvals are needed.
const ApproveVerb = "approve"

// ReplacementsAnnotation on a control plane of any kind, or an EtcdCluster, says which of its machines were replaced, or changed in place, because of the spec within
// the last 24 hours, and when that was begun: demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T09:00:00Z. It is written while
// spec.approval.maxReplacementsPerDay is set, and counted against that.
const ReplacementsAnnotation = "controlplane.cluster.x-k8s.io/quorate-replacements"

// ApprovalPolicy says whether a person must approve before machines are replaced or changed in place.
//
// +kubebuilder:validation:Enum=None;Required
type ApprovalPolicy string

// The values of ApprovalPolicy.
const (
	// ApprovalNone asks nobody. It is the default.
	ApprovalNone ApprovalPolicy = "None"
	// ApprovalRequired waits for a person.
	ApprovalRequired ApprovalPolicy = "Required"
)

// ApprovalSpec says whether a person must approve before machines are replaced or changed in place, and how many are in a day.
//
// +kubebuilder:validation:MinProperties=1
type ApprovalSpec struct {
	// policy is Required where machines that are not as the spec wants them are replaced, or changed in place, only after a person has approved this revision of
	// the spec: with `quorate approve`, or by the annotation controlplane.cluster.x-k8s.io/quorate-approved with the revision that `quorate plan` tells. Scaling, and the
	// replacement of machines that are broken, wait for nobody. Defaults to None.
	// +optional
	Policy ApprovalPolicy `json:"policy,omitempty"`

	// maxReplacementsPerDay is how many machines that are not as the spec wants them are replaced, or changed in place, within 24 hours at most. Then the rollout
	// waits, and says until when. Scaling, the replacement of machines that are broken, and machines that people delete, are neither counted nor held. Where it is
	// not set there is no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxReplacementsPerDay *int32 `json:"maxReplacementsPerDay,omitempty"`
}
