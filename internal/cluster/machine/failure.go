package machine

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/cluster/joinfailure"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// bootstrapSucceeded is the condition by which infrastructure machines tell how their bootstrap
// ended: False for a reason that ends in "Failed" or "Unsupported" is final, and so is one of joinfailure's.
const bootstrapSucceeded = "BootstrapSucceeded"

// Failure is what ended the Machine's bootstrap for good, in the provider's words; empty:
// nothing did. infra is its infrastructure machine, or nil: the Machine mirrors what it says, a
// little later. joined: the Machine has its Node.
//
// Cluster API has no common word for it. Providers that know say it with the condition
// BootstrapSucceeded, or with reasons like BootstrapFailed. Older ones use the fields that v1beta1
// had for what is terminal, which says nothing of the bootstrap of a machine that has joined.
// Any other trouble of the infrastructure may pass.
func Failure(m *clusterv1.Machine, infra *unstructured.Unstructured, joined bool) string {
	if c := ended(infra); c != nil {
		return says(c)
	}
	for _, c := range []*metav1.Condition{of(infra, clusterv1.ReadyCondition),
		conditions.Get(m, clusterv1.MachineInfrastructureReadyCondition)} {
		if c != nil && isFinal(c) && strings.HasPrefix(c.Reason, "Bootstrap") {
			return says(c)
		}
	}
	if joined {
		return ""
	}
	return terminalFailure(m)
}

// terminalFailure is what the fields of v1beta1 say that the Machine cannot recover from; empty: nothing.
func terminalFailure(m *clusterv1.Machine) string {
	old := m.Status.Deprecated
	switch {
	case old == nil || old.V1Beta1 == nil:
		return ""
	case old.V1Beta1.FailureMessage != nil:
		return plaintext.Quote(*old.V1Beta1.FailureMessage, longestProviders)
	case old.V1Beta1.FailureReason != nil:
		return plaintext.Quote(string(*old.V1Beta1.FailureReason), longestWord)
	}
	return ""
}

// BootstrapEnded reports whether it is proven that the bootstrap of an infrastructure machine ended
// with an error and is not tried again, so that no kubeadm runs there any more. infra may be nil.
func BootstrapEnded(infra *unstructured.Unstructured) bool { return ended(infra) != nil }

// vanished is how a provider says that nothing is left of a machine on its host, and nothing is made again.
const vanished = "Vanished"

// Vanished reports whether a machine's infrastructure says that nothing is left of it on its host: nothing runs there, or ever will. infra
// may be nil.
func Vanished(infra *unstructured.Unstructured) bool {
	c := of(infra, clusterv1.ReadyCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == vanished
}

// ended returns the condition that says that the bootstrap ended with an error; nil: none does.
func ended(infra *unstructured.Unstructured) *metav1.Condition {
	if c := of(infra, bootstrapSucceeded); c != nil && isFinal(c) {
		return c
	}
	return nil
}

// of returns a condition of an infrastructure machine; nil if there is none.
func of(infra *unstructured.Unstructured, kind string) *metav1.Condition {
	if infra == nil {
		return nil
	}
	c, err := conditions.UnstructuredGet(infra, kind)
	if err != nil {
		return nil
	}
	return c
}

// longestProviders is how many bytes of a provider's words are quoted at most.
const longestProviders = 2048

// says is what somebody else's condition says.
func says(c *metav1.Condition) string { return Quote(cmp.Or(c.Message, c.Reason)) }

// Clean returns a text for people, which may quote others, without secrets and control characters, and of at most so many bytes.
func Clean(text string, most int) string { return plaintext.Quote(text, most) }

// Quote returns the words of a provider, an operator or a cluster fit for a condition of ours: redacted, on one line, and of limited
// length.
func Quote(text string) string {
	return strings.ReplaceAll(plaintext.Quote(text, longestProviders), "\n", "; ")
}

func isFinal(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && (joinfailure.IsReason(c.Reason) || strings.HasSuffix(c.Reason, "Failed") ||
		strings.HasSuffix(c.Reason, "Unsupported"))
}

// InfrastructureDeleted reports whether Cluster API says of a Machine that is being deleted that its infrastructure is gone.
func InfrastructureDeleted(m *clusterv1.Machine) bool {
	c := conditions.Get(m, clusterv1.MachineDeletingCondition)
	if c == nil || c.Status != metav1.ConditionTrue || m.DeletionTimestamp.IsZero() {
		return false
	}
	switch c.Reason {
	case clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, clusterv1.MachineDeletingDeletingNodeReason,
		clusterv1.MachineDeletingDeletionCompletedReason:
		return true
	}
	return false
}
