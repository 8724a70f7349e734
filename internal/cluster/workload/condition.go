package workload

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Condition reads a condition of any object in a cluster, once; nil: the object has none of that type. The cluster is given so long to
// answer.
func Condition(
	ctx context.Context, config *rest.Config, of schema.GroupVersionKind, key client.ObjectKey, kind string, within time.Duration,
) (*metav1.Condition, error) {
	config = rest.CopyConfig(config)
	config.Timeout = within
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of)
	if err := c.Get(ctx, key, object); err != nil {
		return nil, err
	}
	return conditionOf(object, kind), nil
}

// conditionOf returns a condition of an object's status; nil: it has none of that type.
func conditionOf(object *unstructured.Unstructured, kind string) *metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range list {
		fields, _ := one.(map[string]any)
		text := func(name string) string { s, _ := fields[name].(string); return s }
		if text("type") == kind {
			return &metav1.Condition{Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
		}
	}
	return nil
}
