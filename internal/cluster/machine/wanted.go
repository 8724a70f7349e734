package machine

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// updateMachineHook is the name of the hook that Cluster API notes as pending on a Machine while
// an extension updates it.
const updateMachineHook = "UpdateMachine"

// Updating says what somebody else changes inside a Machine; empty: nothing. Upstream's
// controller may have begun it; Cluster API's core ends it.
func Updating(m *clusterv1.Machine) string {
	_, begun := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	pending := strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ",")
	if !begun && !slices.Contains(pending, updateMachineHook) {
		return ""
	}
	if c := conditions.Get(m, clusterv1.MachineUpdatingCondition); c != nil && conditions.IsTrue(m, c.Type) && c.Message != "" {
		return says(c)
	}
	return "an in-place update is in progress"
}

// Marked says why a Machine is to be replaced: a health check found it broken and left
// it to its owner, or a person asks for it. Empty: it is not.
func Marked(m *clusterv1.Machine) string {
	if MarkedByPerson(m) {
		return "the annotation " + clusterv1.RemediateMachineAnnotation + " asks for it"
	}
	if !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) ||
		!conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
		return ""
	}
	return says(conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition))
}

// MarkedByPerson reports whether a person asks for a Machine to be replaced, by Cluster API's annotation.
func MarkedByPerson(m *clusterv1.Machine) bool {
	_, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]
	return asked
}

// ShutGate names the first of the user's readiness gates that a Machine does not pass; empty: it passes all.
func ShutGate(m *clusterv1.Machine, gates []clusterv1.MachineReadinessGate) string {
	for _, gate := range gates {
		passed := conditions.IsTrue(m, gate.ConditionType)
		if gate.Polarity == clusterv1.NegativePolarityCondition {
			passed = conditions.IsFalse(m, gate.ConditionType)
		}
		if !passed {
			return gate.ConditionType
		}
	}
	return ""
}
