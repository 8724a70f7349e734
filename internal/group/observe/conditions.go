package observe

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// The most bytes of a condition's message. The API server takes 32768, and conditions of
// the machines are summed up in those of the control plane.
const (
	LongestCondition = 16 << 10
	// LongestDifferences is for those of one machine from what is wanted.
	LongestDifferences = 4 << 10
)

// Condition is short for what every condition here consists of.
func Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: Cut(message, LongestCondition)}
}

// Entries joins texts to at most so many bytes. What does not fit is left out as a whole, and counted.
func Entries(texts []string, separator string, most int) string {
	if whole := strings.Join(texts, separator); len(whole) <= most {
		return whole
	}
	joined := ""
	for i, text := range texts {
		rest := fmt.Sprintf("%s... and %d more", separator, len(texts)-i)
		if i > 0 {
			text = separator + text
		}
		if len(joined)+len(text)+len(rest) > most {
			return strings.TrimPrefix(joined+rest, separator)
		}
		joined += text
	}
	return joined
}

// MayServe reports whether anything can be expected of a machine: it stays, and its infrastructure was made, or its Node is known.
func (m *Machine) MayServe() bool {
	return !m.Facts.Deleting && (m.Spec.ProviderID != "" || m.Facts.Host != "")
}

// otherNodes are the Nodes that call themselves a control plane, but for those with the given names.
func (o *View) otherNodes(than map[string]bool) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range o.Inside.Nodes {
		node := &o.Inside.Nodes[i]
		if _, controls := node.Labels[machine.NodeLabel]; controls && !than[node.Name] {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Ailments are what is not healthy of several things.
type Ailments struct {
	// known are the health of each, and texts what is told of them.
	known []plan.Health
	texts []string
}

// Add notes how healthy one is, and why; nothing is noted of what is healthy.
func (a *Ailments) Add(is plan.Health, format string, args ...any) {
	if is == plan.Healthy {
		return
	}
	a.known = append(a.known, is)
	a.texts = append(a.texts, "* "+fmt.Sprintf(format, args...))
}

// Condition tells of the worst of them, and why.
func (a *Ailments) Condition(kind string) metav1.Condition {
	worst := plan.Healthy
	for _, is := range a.known {
		worst = worse(worst, is)
	}
	return HealthCondition(kind, worst, a.texts, upstream.KubeadmControlPlaneControlPlaneComponentsHealthyReason,
		upstream.KubeadmControlPlaneControlPlaneComponentsNotHealthyReason,
		upstream.KubeadmControlPlaneControlPlaneComponentsHealthUnknownReason)
}

// worse returns the worse of two: what is broken is worse than what is not known.
func worse(a, b plan.Health) plan.Health {
	if a == plan.Unhealthy || b == plan.Unhealthy {
		return plan.Unhealthy
	}
	if a == plan.Unknown || b == plan.Unknown {
		return plan.Unknown
	}
	return plan.Healthy
}

// HealthCondition tells of a health, and why it is not good.
func HealthCondition(kind string, worst plan.Health, texts []string, good, bad, unknown string) metav1.Condition {
	message := Entries(texts, "\n", LongestCondition)
	switch worst {
	case plan.Healthy:
		return Condition(kind, metav1.ConditionTrue, good, "")
	case plan.Unhealthy:
		return Condition(kind, metav1.ConditionFalse, bad, message)
	}
	return Condition(kind, metav1.ConditionUnknown, unknown, message)
}
