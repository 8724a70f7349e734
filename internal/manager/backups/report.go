package backups

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/program/untrusted"
)

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// shown is an error that is fit for a status: a store may have said it.
func shown(err error) string { return untrusted.Shown(err.Error()) }

// report writes status.backup and the condition, where they differ.
func (c *Controller) report(ctx context.Context, l *look) error {
	after := l.object.DeepCopyObject().(observe.Object)
	status, now := c.Kind.Status(after).Backup, time.Now()
	if l.failed == nil {
		status.LastVerified = verified(l.newest(true, now))
		status.Next = metaTime(l.due(now))
	}
	if l.known != nil && !l.known.attempted.IsZero() {
		status.LastAttempt = l.known.said
	}
	made := l.current(*status, now)
	conditions.Set(after, made)
	Stands(c.Kind.Type().Kind, client.ObjectKeyFromObject(after), status.LastVerified, made)
	// The condition, the metrics and retention are about what is there. Recovered is from the newest that can be read.
	if old := l.lost(now); old != nil && l.failed == nil {
		status.LastVerified = verified(old)
	}
	return c.write(ctx, l.object, after)
}

// withdraw takes the condition and the finalizer away from a group without backups, and what is noted for changes of machines if it has
// none of anybody's. What was taken stays in the status, as it stays in the store.
func (c *Controller) withdraw(ctx context.Context, object observe.Object, none bool) error {
	object, err := c.hold(ctx, object, false)
	if err != nil {
		return err
	}
	if none && object.GetDeletionTimestamp().IsZero() {
		l := &look{object: object}
		if err := c.forgetVerified(ctx, l); err != nil {
			return err
		}
		object = l.object
	}
	if conditions.Get(object, controlplanev1.BackupCurrentCondition) == nil {
		return nil
	}
	after := object.DeepCopyObject().(observe.Object)
	conditions.Delete(after, controlplanev1.BackupCurrentCondition)
	return c.write(ctx, object, after)
}

func (c *Controller) write(ctx context.Context, before, after observe.Object) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	// The list of conditions is written as a whole: there must be no other write meanwhile.
	if err := c.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", c.Kind.Type().Kind, after.GetName(), err)
	}
	return nil
}

// current is the condition.
func (l *look) current(status controlplanev1.BackupStatus, now time.Time) metav1.Condition {
	made := metav1.Condition{Type: controlplanev1.BackupCurrentCondition, Status: metav1.ConditionFalse}
	last, attempt := status.LastVerified, ""
	if l.waits != nil {
		attempt = "; " + shown(l.waits)
	} else if a := status.LastAttempt; a.Message != "" {
		attempt = fmt.Sprintf("; the last attempt (%s): %s", a.Reason, a.Message)
	}
	switch {
	case l.failed != nil:
		made.Reason, made.Message = l.reason, shown(l.failed)
	case last.Name == "":
		made.Reason, made.Message = controlplanev1.BackupNever, "there is no verified backup yet"+attempt
	case l.isAsleep():
		made.Status, made.Reason = metav1.ConditionTrue, controlplanev1.BackupHibernated
		made.Message = fmt.Sprintf("hibernated, and wakes from %s: no backup is taken", observe.HibernationOf(l.object).Backup)
	case l.timetable.Late(last.Time.Time, now):
		made.Reason = controlplanev1.BackupOverdue
		made.Message = fmt.Sprintf("the newest verified backup, %s, is older than two intervals of the schedule%s", last.Name, attempt)
	default:
		made.Status, made.Reason = metav1.ConditionTrue, controlplanev1.BackupVerified
		made.Message = fmt.Sprintf("recoverable from %s, verified%s", last.Name, attempt)
		if l.kept {
			made.Message += "; old backups that the store does not allow deleting are left to it"
		}
	}
	made.Message += l.warning(now)
	return made
}
