package observe

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// missingNode says what a machine without a Node waits for; empty when it has one.
func missingNode(m *Machine) string {
	switch {
	case m.Node != nil:
		return ""
	case m.Facts.Failed != "":
		return "The machine failed: " + m.Facts.Failed
	case m.Facts.Host != "":
		return "Node " + m.Facts.Host + " does not exist"
	}
	return "Waiting for its Node"
}

// Blind says why nothing can be known of a machine's Node, and with which
// reason that is told; both empty when something can. The reasons are the same words for all conditions.
func (t *View) Blind(m *Machine) (reason, why string) {
	switch o := t.Facts; {
	case !o.Group.Initialized:
		return clusterv1.InspectionFailedReason, "Waiting for the control plane to be initialized"
	case !o.Cluster.Reachable:
		return clusterv1.ConnectionDownReason, "The API server does not answer: " + o.Cluster.Unreachable
	}
	if why := missingNode(m); why != "" && !t.Nodeless {
		return clusterv1.InspectionFailedReason, why
	}
	return "", ""
}
