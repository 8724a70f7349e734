package local

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// problem is why something is not done, for a condition: a word for programs and a sentence for people. It is
// not an error: trying again at once would not help.
type problem struct{ reason, message string }

// mark sets a condition to False for a problem, or to True when there is none.
func mark(o conditions.Setter, condition, reasonWhenTrue string, p *problem) {
	c := metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reasonWhenTrue}
	if p != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.reason, p.message
	}
	conditions.Set(o, c)
}
