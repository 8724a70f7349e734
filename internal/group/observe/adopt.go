package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
)

// addUncontrolled adds the control plane machines that are not the group's, and what is against their adoption.
func (t *Observer) addUncontrolled(ctx context.Context, others []*clusterv1.Machine) error {
	for _, m := range others {
		against := wants{t.View}.contradiction(m)
		if against == "" {
			var err error
			if against, err = t.Own.Unadoptable(ctx, t, m); err != nil {
				return err
			}
		}
		t.Facts.Uncontrolled = append(t.Facts.Uncontrolled, plan.UncontrolledMachine{Name: m.Name, Against: against})
	}
	return nil
}

// contradiction says what a Machine's owner and cluster have against its adoption; empty: nothing.
func (t wants) contradiction(m *clusterv1.Machine) string {
	if owner := metav1.GetControllerOf(m); owner != nil {
		text := "it is controlled by " + owner.Kind + " " + owner.Name
		if owner.Kind == t.Type.Kind && owner.Name == t.Object.GetName() {
			text += ", which is another than today's (UID " + string(owner.UID) + ")"
		}
		return text
	}
	if m.Spec.ClusterName != t.Cluster.Name {
		return fmt.Sprintf("it belongs to cluster %q by its spec, and to %q by its label", m.Spec.ClusterName, t.Cluster.Name)
	}
	return ""
}

// othersMade reports whether some of the machines were made by others: each of ours has
// a number that was written down before it was made.
func othersMade(format string, last int, ours []*clusterv1.Machine) bool {
	return slices.ContainsFunc(ours, func(m *clusterv1.Machine) bool {
		n := plan.Number(format, m.Name)
		return n == 0 || n > last
	})
}

// Identified returns labels with those that say whose a machine is.
func (t *View) Identified(labels map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, t.Identity())
	return all
}
