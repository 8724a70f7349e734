package v1beta2

// DecisionPrefix begins the name of an annotation on a control plane of any kind, or an EtcdCluster; the digest of the facts that a person
// was shown ends it. It holds what the person decided where no controller can, such as
// decision.quorate.io/1a2b3c4d5e6f7081: remove-voter 8e9e05c52164694d demo-cp-2. It
// counts while the facts are those, and is taken away when it is done or they are others. `quorate decide` writes it.
const DecisionPrefix = "decision.quorate.io/"

// DecidedByPrefix begins the name of the annotation, with the same digest, that holds when that was decided, and by which user, as
// ApprovedByAnnotation does. Admission writes it, whatever a request says, and it goes with the decision.
const DecidedByPrefix = "decided-by.quorate.io/"

// Bounds of decisions: how many an object has at most, and how many bytes each is at most.
const (
	MaxDecisions      = 8
	MaxDecisionLength = 256
)
