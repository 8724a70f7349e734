package local

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// save writes what changed in an object. One that is gone already was let go by us, a moment ago, and the cache did not show it.
func save(ctx context.Context, helper *patch.Helper, o client.Object, owned ...string) error {
	err := helper.Patch(ctx, o, patch.WithOwnedConditions{Conditions: owned})
	var all kerrors.Aggregate
	if !o.GetDeletionTimestamp().IsZero() && errors.As(err, &all) &&
		!slices.ContainsFunc(all.Errors(), func(e error) bool { return !apierrors.IsNotFound(e) }) {
		return nil
	}
	return err
}
