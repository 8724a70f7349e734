package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// From when on a deletion counts as late, with a drain as the reason.
const (
	lateDeletion = 15 * time.Minute
	lateDrain    = 5 * time.Minute
	mostLate     = 3 // names
)

// drainDelays are what Cluster API's core says of a drain that does not end, and what that is in short.
var drainDelays = []struct{ says, short string }{
	{"cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"},
	{"deletionTimestamp set, but still not removed from the Node", "Pods not terminating"},
	{"failed to evict Pod", "Pod eviction errors"},
	{"waiting for completion", "Pods not completed yet"},
}

// LateDeletions says which Machines are being deleted for more than 15 min, and what their drain waits for.
// Empty: none is.
func LateDeletions(machines []*clusterv1.Machine, now time.Time) string {
	late := slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool {
		return m.DeletionTimestamp.IsZero() || now.Sub(m.DeletionTimestamp.Time) <= lateDeletion
	})
	if len(late) == 0 {
		return ""
	}
	names := make([]string, 0, len(late))
	for _, m := range late {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	verb := "is"
	if len(names) > 1 {
		verb = "are"
	}
	if more := len(names) - mostLate; more > 0 {
		names = append(names[:mostLate], fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("%s %s being deleted for more than 15 min", strings.Join(names, ", "), verb)
	if reasons := drainReasons(late, now); len(reasons) > 0 {
		text += ", probably because of " + strings.Join(reasons, ", ")
	}
	return text
}

// drainReasons says in short what the drains of Machines wait for, each once.
func drainReasons(machines []*clusterv1.Machine, now time.Time) []string {
	var reasons []string
	for _, delay := range drainDelays {
		if slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
			return drainsLong(m, now) && strings.Contains(conditions.GetMessage(m, clusterv1.MachineDeletingCondition), delay.says)
		}) {
			reasons = append(reasons, delay.short)
		}
	}
	return reasons
}

// drainsLong reports whether a Machine's Node is being drained for long.
func drainsLong(m *clusterv1.Machine, now time.Time) bool {
	c := conditions.Get(m, clusterv1.MachineDeletingCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == clusterv1.MachineDeletingDrainingNodeReason &&
		m.Status.Deletion != nil && !m.Status.Deletion.NodeDrainStartTime.IsZero() &&
		now.Sub(m.Status.Deletion.NodeDrainStartTime.Time) > lateDrain
}
