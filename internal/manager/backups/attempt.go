package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// verifyAge is how old the newest verified backup may be where backups are verified daily.
const verifyAge = 24 * time.Hour

// look is one look at a group's backups.
type look struct {
	object  observe.Object
	cluster *clusterv1.Cluster
	spec    *controlplanev1.BackupSpec
	// hibernates: no machine of the group is to run.
	hibernates bool
	timetable  backup.Timetable
	known      *known
	catalog    clusterbackup.Catalog
	// entries are the backups that are in the store, and changed those of which it has old versions only, the newest of them.
	entries, changed []*clusterbackup.Entry
	// failed is why nothing could be looked at, and reason that in one word; nil: it could.
	failed error
	reason string
	// waits is what a backup that is due waits for; nil: none is due, or it was tried.
	waits error
	// kept says that retention is left to the store.
	kept bool
}

// newest returns the newest backup, of those that are verified only if so; nil: there is none.
func (l *look) newest(verified bool, now time.Time) *clusterbackup.Entry {
	return clusterbackup.Newest(l.entries, verified, now)
}

// ahead returns the names of the backups with a time in the future.
func (l *look) ahead(now time.Time) []string {
	var names []string
	for _, e := range l.entries {
		if e.Manifest != nil && backup.IsAhead(e.Manifest.Taken, now) {
			names = append(names, e.Name)
		}
	}
	return names
}

// list reads what the store has, and remembers it.
func (l *look) list(ctx context.Context) error {
	entries, err := l.catalog.List(ctx)
	if err != nil {
		return err
	}
	l.entries, l.changed, l.known.seen = entries, nil, map[string]*clusterbackup.Entry{}
	for _, e := range entries {
		l.known.seen[e.Name] = e
	}
	l.compare(ctx, time.Now())
	return nil
}

// stored are the backups that have a manifest.
func (l *look) stored() []backup.Stored {
	var all []backup.Stored
	for _, e := range l.entries {
		if e.Manifest != nil {
			all = append(all, backup.Stored{Name: e.Name, UID: e.Manifest.Cluster.UID, Taken: e.Manifest.Taken, Verified: e.Verified()})
		}
	}
	return all
}

// due returns when the next backup is to be taken.
func (l *look) due(now time.Time) time.Time {
	past := backup.Past{Attempted: l.known.attempted, Failures: l.known.failures}
	if e := l.newest(false, now); e != nil {
		past.Taken = e.Manifest.Taken
	}
	return l.timetable.Due(l.catalog.UID, past)
}

// asked reports whether a person asked for a backup that was not tried since.
func (l *look) asked(now time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, l.object.GetAnnotations()[controlplanev1.BackupRequestedAnnotation])
	if err != nil {
		return false
	}
	e := l.newest(false, now)
	return l.known.attempted.Before(at) && (e == nil || e.Manifest.Taken.Before(at.Truncate(time.Second)))
}

// attempt takes a backup, once there is a slot. What comes of it stands in the look; an error means that the manager ends.
func (c *Controller) attempt(ctx context.Context, l *look) error {
	select {
	case c.Slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.Slots }()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	began := time.Now()
	reason, err := c.take(ctx, l, began)
	if errors.Is(err, backup.ErrJoining) {
		l.waits = err // as each cluster does that is being made: nothing failed
		return nil
	}
	l.known.attempted, l.known.took = began, time.Since(began)
	l.known.said = controlplanev1.BackupAttempt{Time: metaTime(began), Reason: reason}
	log := ctrl.LoggerFrom(ctx)
	if err != nil {
		l.known.said.Message = shown(err)
		CountFailure(c.Kind.Type().Kind, reason)
		log.Info("Backup failed", "reason", reason, "message", l.known.said.Message)
	} else {
		l.known.said.Message = tooLate(l.spec, l.known.took)
		Observe(c.Kind.Type().Kind, l.known.took)
		log.Info("Took a backup", "reason", reason, "took", l.known.took.Round(time.Millisecond).String())
	}
	// What was stored is a backup, proven or not: it is not tried again at once.
	if l.known.failures++; reason != controlplanev1.BackupFailed && reason != controlplanev1.BackupNotVerified {
		l.known.failures = 0
	}
	if err := l.list(ctx); err != nil {
		l.failed, l.reason = err, controlplanev1.BackupStoreUnusable
		return nil
	}
	if l.known.failures == 0 {
		c.retain(ctx, l)
	}
	return nil
}

// take takes, stores and proves one backup, and returns what came of it in one word.
func (c *Controller) take(ctx context.Context, l *look, now time.Time) (string, error) {
	found, err := observe.FindEtcd(ctx, c.Client, c.Kind, client.ObjectKeyFromObject(l.object), c.ForwardOnly)
	if err != nil {
		return controlplanev1.BackupFailed, err
	}
	client := etcd.Open(found.Credentials)
	defer client.Close()
	files, fingerprints, err := Files(ctx, c.Client, c.APIReader, c.Kind.Type().GroupVersionKind, found)
	if err != nil {
		return controlplanev1.BackupFailed, err
	}
	r := clusterbackup.Request{
		Name: backup.Name(now, rand.String(5)), Kubernetes: found.Version, Recipients: l.spec.Encryption.Recipients, Fingerprints: fingerprints,
		Files:   files,
		Cluster: backup.Cluster{UID: l.catalog.UID, Namespace: l.cluster.Namespace, Name: l.cluster.Name}, Limits: c.Limits, Now: now,
	}
	proves := l.proves(now)
	if proves {
		r.Scratch = c.Scratch
	}
	taken, err := l.catalog.Save(ctx, r.Name, func(to io.Writer) (*clusterbackup.Taken, error) {
		return clusterbackup.Take(ctx, client, found.Targets, r, to)
	})
	switch {
	case err != nil:
		return controlplanev1.BackupFailed, err
	case !proves:
		return controlplanev1.BackupStored, nil
	case taken.Unproven != nil:
		return controlplanev1.BackupNotVerified, taken.Unproven
	}
	e, err := l.catalog.Get(ctx, r.Name)
	if err == nil {
		_, err = l.catalog.Verify(ctx, e, clusterbackup.Proof{Restored: taken.Restored, Now: time.Now()})
	}
	if err != nil {
		return controlplanev1.BackupNotVerified, err
	}
	return controlplanev1.BackupVerified, nil
}

// proves reports whether the next backup is to be restored.
func (l *look) proves(now time.Time) bool {
	if l.spec.Verify != controlplanev1.BackupVerifyDaily || !l.required(now).IsZero() {
		return true
	}
	e := l.newest(true, now)
	return e == nil || now.Sub(e.Manifest.Taken) > verifyAge
}

// retain deletes what retention does not keep, and what uploads left behind. Nothing waits for it: what fails is tried after the next
// backup.
func (c *Controller) retain(ctx context.Context, l *look) {
	stored, failed := c.held(ctx, l)
	if failed != nil {
		ctrl.LoggerFrom(ctx).Info("Deleting old backups failed", "message", shown(failed))
		return
	}
	given := l.spec.Retention
	r := backup.Retention{
		Last: int(ptr.Deref(given.Last, 0)), Hourly: int(ptr.Deref(given.Hourly, 0)), Daily: int(ptr.Deref(given.Daily, 0)),
		Weekly: int(ptr.Deref(given.Weekly, 0)), Monthly: int(ptr.Deref(given.Monthly, 0)),
	}
	deleted, failed := l.catalog.DeleteAll(ctx, backup.Expired(r, l.catalog.UID, stored, time.Now()))
	for _, name := range deleted {
		ctrl.LoggerFrom(ctx).Info("Deleted a backup that retention does not keep", "backup", name)
	}
	if failed == nil {
		failed = l.catalog.Clear(ctx, time.Now())
	}
	if l.kept = errors.Is(failed, store.ErrForbidden); failed != nil && !l.kept {
		ctrl.LoggerFrom(ctx).Info("Deleting old backups failed", "message", shown(fmt.Errorf("deleting old backups: %w", failed)))
	}
}

// held returns the backups in the store. Those are held that a recovery of the namespace restores, or will, and the one from which a group
// wakes.
func (c *Controller) held(ctx context.Context, l *look) ([]backup.Stored, error) {
	held, err := observe.HeldBackups(ctx, c.Client, l.object.GetNamespace())
	if err != nil {
		return nil, err
	}
	all, wakesFrom := l.stored(), observe.HibernationOf(l.object).Backup
	for i := range all {
		all[i].Held = held[all[i].Name] || all[i].Name == wakesFrom
	}
	return all, nil
}
