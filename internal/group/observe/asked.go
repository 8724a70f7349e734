package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
)

// AskFor returns the value of controlplanev1.ReplaceAnnotation that asks for a Machine of a group too. The time is that at which the
// Machine was made, so that no clock matters. Requests of machines that are not there are dropped.
func AskFor(value string, m *clusterv1.Machine, there []string) (string, error) {
	all, err := machine.ParseAsked(value)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(r plan.Replacement) bool { return r.Machine == m.Name || !slices.Contains(there, r.Machine) })
	all = append(all, plan.Replacement{Machine: m.Name, At: drift.Machine{Machine: m}.Created()})
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.Machine + "=" + r.At.UTC().Format(time.RFC3339)
	}
	value = strings.Join(texts, ",")
	if len(value) > controlplanev1.MaxReplaceLength {
		return "", fmt.Errorf("%d machines are asked to be replaced already: must be less", len(all)-1)
	}
	return value, nil
}

// driftOf returns in what a machine is not as wanted, by the spec or because a person asked for another.
func driftOf(t *Observer, m *Machine) drift.Drift {
	found := t.Own.Drift(t.View, m)
	asked, _ := machine.ParseAsked(t.Object.GetAnnotations()[controlplanev1.ReplaceAnnotation]) // NotAsked says what is wrong with it
	for _, r := range asked {
		if r.Machine == m.Name {
			found.Due = append(found.Due, drift.Asked(drift.Machine{Machine: m.Machine}, r.At, t.Facts.Now)...)
		}
	}
	return found
}

// NotAsked returns which names in controlplanev1.ReplaceAnnotation replace no machine, and why; empty: there is none. A machine that was
// replaced is named too, while the annotation names it.
func NotAsked(t *View) string {
	asked, err := machine.ParseAsked(t.Object.GetAnnotations()[controlplanev1.ReplaceAnnotation])
	if err != nil {
		return "No machine is replaced: " + err.Error()
	}
	var texts []string
	for _, r := range asked {
		m := t.Machine(r.Machine)
		switch {
		case m == nil:
			texts = append(texts, r.Machine+" (no such machine)")
		case r.At.After(t.Facts.Now):
			texts = append(texts, r.Machine+" (not before "+r.At.Format(time.RFC3339)+")")
		case len(drift.Asked(drift.Machine{Machine: m.Machine}, r.At, t.Facts.Now)) == 0:
			texts = append(texts, r.Machine+" (made after "+r.At.Format(time.RFC3339)+")")
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "The annotation quorate-replace names machines that are not replaced for it: " + Entries(texts, ", ", longestDrift)
}
