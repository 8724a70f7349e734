package backups

import (
	"context"
	"fmt"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// needsNote reports whether something is decided by the newest verified backup: a change of machines, their deletion, or a hibernation.
func (l *look) needsNote() bool {
	return observe.MaxBackupAge(l.spec) > 0 || l.hibernates || !observe.LastBackup(l.object, l.spec).IsZero()
}

// isAsleep reports whether the machines of a group go, or are gone, because it hibernates: there is nothing to be backed up.
func (l *look) isAsleep() bool { return observe.HibernationOf(l.object).IsAsleep() }

// isWanted reports whether a backup is to be taken now.
func (l *look) isWanted(now time.Time) bool {
	return !l.isAsleep() && (!l.due(now).After(now) || l.asked(now) || l.isRequired(now))
}

// again is after how long the group is looked at again. While it hibernates none is due, however old the newest is.
func (l *look) again(now time.Time) time.Duration {
	switch {
	case l.waits != nil:
		return soon
	case l.isAsleep():
		return looks
	}
	return min(looks, max(time.Second, l.due(now).Sub(now)))
}

// required is since when a change of machines, their deletion, or a hibernation, waits for a verified backup that was taken then or later;
// zero: none does.
func (l *look) required(now time.Time) time.Time {
	since := observe.LastBackup(l.object, l.spec)
	if since.IsZero() {
		var err error
		since, err = time.Parse(time.RFC3339, l.object.GetAnnotations()[controlplanev1.BackupRequiredAnnotation])
		if err != nil || observe.MaxBackupAge(l.spec) == 0 && !l.hibernates {
			return time.Time{}
		}
	}
	if newest, found := backup.NewestVerified(l.catalog.UID, l.stored(), now); found && !newest.Taken.Before(since) {
		return time.Time{}
	}
	return since
}

// pause is how long Quorate takes no backup for a change after one that came too late for it.
const pause = 30 * time.Minute

// isRequired reports whether a change of machines waits for a backup that was not tried since. After a failure it is tried again as any
// other. Where the last one was too old once it was verified, the next will be too: it is not tried at once.
func (l *look) isRequired(now time.Time) bool {
	since := l.required(now)
	if since.IsZero() || !l.known.attempted.Before(since) {
		return false
	}
	late := observe.LastBackup(l.object, l.spec).IsZero() && !l.hibernates && tooLate(l.spec, l.known.took) != ""
	return !late || !now.Before(l.known.attempted.Add(l.known.took+pause))
}

// tooLate says that a backup which took so long is too old for the change that waits for it; empty: it is not.
func tooLate(spec *controlplanev1.BackupSpec, took time.Duration) string {
	most := observe.MaxBackupAge(spec)
	if most == 0 || took < most {
		return ""
	}
	return fmt.Sprintf("it took %s until it was verified, and spec.backup.maxAgeBefore is %s: no change that waits for a backup can begin. "+
		"Set maxAgeBefore to more than that; another is tried after %s", took.Round(time.Second), most, pause)
}

// noteVerified writes down, where a move keeps it, which verified backup of the group the store has. Changes of machines are decided by
// that. Nothing else writes it, so that it does not matter what else of the object has changed.
func (c *Controller) noteVerified(ctx context.Context, l *look) error {
	if !l.needsNote() {
		return c.forgetVerified(ctx, l)
	}
	var note observe.VerifiedBackup
	if newest, found := backup.NewestVerified(l.catalog.UID, l.stored(), time.Now()); found {
		note = observe.VerifiedBackup{Store: observe.StoreOf(l.spec.StoreRef), UID: l.catalog.UID, Name: newest.Name, Taken: newest.Taken}
	}
	return c.annotate(ctx, l, map[string]string{controlplanev1.BackupVerifiedAnnotation: note.String()})
}

// forgetVerified takes away what is noted for changes of machines: none waits for a backup any more.
func (c *Controller) forgetVerified(ctx context.Context, l *look) error {
	return c.annotate(ctx, l, map[string]string{controlplanev1.BackupVerifiedAnnotation: "", controlplanev1.BackupRequiredAnnotation: ""})
}

// annotate sets annotations of the object, or takes those away whose value is empty.
func (c *Controller) annotate(ctx context.Context, l *look, values map[string]string) error {
	after := l.object.DeepCopyObject().(observe.Object)
	all := maps.Clone(after.GetAnnotations())
	for name, value := range values {
		switch {
		case value == "":
			delete(all, name)
		case all == nil:
			all = map[string]string{name: value}
		default:
			all[name] = value
		}
	}
	if maps.Equal(all, l.object.GetAnnotations()) {
		return nil
	}
	after.SetAnnotations(all)
	if err := c.Client.Patch(ctx, after, client.MergeFrom(l.object)); err != nil {
		return fmt.Errorf("writing the newest verified backup of %s: %w", after.GetName(), err)
	}
	l.object = after
	return nil
}
