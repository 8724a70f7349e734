package status

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/group/observe"
)

// repairs says what of a group's repair goes on: a machine that was given up
// and not replaced yet, or machines that are marked.
func (t Report) repairs() []string {
	var texts []string
	if given := observe.ReplacementIn(t.Object.GetAnnotations(), upstream.RemediationInProgressAnnotation); given != nil {
		texts = append(texts, "* "+given.Machine+" was given up, and is to be replaced")
	}
	for _, m := range t.Facts.Machines {
		if m.Marked != "" {
			texts = append(texts, "* "+m.Name+": "+m.Marked)
		}
	}
	return texts
}
