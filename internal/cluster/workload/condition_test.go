package workload

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestConditionOf(t *testing.T) {
	t.Parallel()
	available := map[string]any{"type": "Available", "status": "False", "reason": "MemberLost", "message": "a member does not answer"}
	for _, c := range []struct {
		what   string
		status map[string]any
		want   *metav1.Condition
	}{
		{what: "no status"},
		{"no conditions", map[string]any{}, nil},
		{"another condition", map[string]any{"conditions": []any{map[string]any{"type": "Degraded", "status": "True"}}}, nil},
		{"conditions of another form", map[string]any{"conditions": []any{"Available"}}, nil},
		{"the condition", map[string]any{"conditions": []any{map[string]any{"type": "Degraded"}, available}},
			&metav1.Condition{Type: "Available", Status: metav1.ConditionFalse, Reason: "MemberLost", Message: "a member does not answer"}},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if c.status != nil {
			object.Object["status"] = c.status
		}
		got := conditionOf(object, "Available")
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}
