package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// hibernated is the condition of a group that hibernates, is on its way, or did once.
func (t Report) hibernated(d plan.Decision) []metav1.Condition {
	p, kind := t.Facts.Power, controlplanev1.HibernatedCondition
	switch {
	case p.Backup != "" && len(t.Machines) == 0 && !t.Facts.Recovery.Begun && p.Hibernate:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionTrue, controlplanev1.HibernatedReason, d.Message)}
	case p.Hibernate:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, controlplanev1.HibernatingReason, d.Message)}
	case p.Backup != "" || p.Woken:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, controlplanev1.WakingReason, d.Message)}
	case conditions.Has(t.Object, kind):
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, controlplanev1.RunningReason, "")}
	}
	return nil
}
