package provider

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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// problem is why something is not done, for a condition: a word for programs and a sentence for people. It is
// not an error: trying again at once would not help.
type problem struct{ reason, message string }

// mark sets a condition to False for a problem, or to True when there is none. What others wrote may have got into the message,
// by way of an error too: everybody who may read the object reads it.
func mark(o conditions.Setter, condition, reasonWhenTrue string, p *problem) {
	c := metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reasonWhenTrue}
	if p != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.reason, plaintext.Shown(p.message)
	}
	conditions.Set(o, c)
}

// released reports whether an object is being deleted and we have let it go, or never held it: nothing of it is ours to do or
// to write any more.
func released(o client.Object, finalizer string) bool {
	return !o.GetDeletionTimestamp().IsZero() && !controllerutil.ContainsFinalizer(o, finalizer)
}

// save writes what changed in an object. That there is no such object any more is an error only for one that our finalizer
// holds. All others may go at any moment, and those that are being deleted went because we released them, which the
// cache may not show yet.
func save(ctx context.Context, helper *patch.Helper, o client.Object, finalizer string, owned ...string) error {
	err := helper.Patch(ctx, o, patch.WithOwnedConditions{Conditions: owned})
	held := o.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(o, finalizer)
	if !held && gone(err) {
		return nil
	}
	return err
}

// gone reports whether an error, or each of those that a patch.Helper collected, says that there is no such object.
func gone(err error) bool {
	if all, ok := errors.AsType[kerrors.Aggregate](err); ok {
		return !slices.ContainsFunc(all.Errors(), func(e error) bool { return !apierrors.IsNotFound(e) })
	}
	return apierrors.IsNotFound(err)
}
