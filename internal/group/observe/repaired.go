package observe

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
)

// LastRemediation returns the repair that goes on, else the newest that one of the machines
// was made for; nil: none is known.
func (t *View) LastRemediation() *Replacement {
	last := ReplacementIn(t.Object.GetAnnotations(), upstream.RemediationInProgressAnnotation)
	if last != nil {
		return last
	}
	for _, m := range t.Machines {
		made := ReplacementIn(m.Annotations, upstream.RemediationForAnnotation)
		if made != nil && (last == nil || last.Timestamp.Before(&made.Timestamp)) {
			last = made
		}
	}
	return last
}
