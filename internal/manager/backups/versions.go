package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
)

const (
	// mostChanged is how many backups are looked at that were deleted or overwritten.
	mostChanged = 50
	// comparing is how long a store may take to tell its versions: nothing waits for them.
	comparing = time.Minute
)

// compare finds, in a store that keeps versions, which backups somebody deleted or overwrote. Retention never deletes the newest verified
// one, nor what is newer: only from there on is looked, and at all where that one was changed, or there is none. A backup that was
// overwritten counts for nothing any more, neither for retention. Where nothing can be learned of versions, what is there counts.
func (l *look) compare(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, comparing)
	defer cancel()
	all, since := l.entries, ""
	if e := l.newest(true, now); e != nil {
		since = e.Name
	}
	known := l.compareFrom(ctx, all, since)
	if e := l.newest(true, now); known && since != "" && (e == nil || e.Name != since) {
		l.compareFrom(ctx, all, "")
	}
}

// compareFrom does so for those backups whose names are not before one, and reports whether anything is known of versions.
func (l *look) compareFrom(ctx context.Context, all []*clusterbackup.Entry, since string) bool {
	there, changed, err := l.catalog.Changed(ctx, all, since, mostChanged)
	if err != nil {
		if !errors.Is(err, store.ErrNoVersions) {
			ctrl.LoggerFrom(ctx).V(1).Info("The versions of backups cannot be read", "message", shown(err))
		}
		return false
	}
	l.entries, l.changed = there, changed
	return true
}

// lost returns the newest verified backup where that is one of which the store has old versions only; nil: it is not.
func (l *look) lost(now time.Time) *clusterbackup.Entry {
	old, e := clusterbackup.Newest(l.changed, true, now), l.newest(true, now)
	if old == nil || e != nil && !old.Manifest.Taken.After(e.Manifest.Taken) {
		return nil
	}
	return old
}

// verified is a verified backup as a status has it; the zero value of none.
func verified(e *clusterbackup.Entry) controlplanev1.VerifiedBackup {
	if e == nil {
		return controlplanev1.VerifiedBackup{}
	}
	return controlplanev1.VerifiedBackup{
		Name: e.Name, Time: metav1.NewTime(e.Manifest.Taken), Revision: e.Manifest.Revision(), SizeBytes: e.Manifest.Archive.Size,
	}
}

// warning says of what else a person must know: backups whose time is in the future, and those that somebody deleted or overwrote.
func (l *look) warning(now time.Time) string {
	if l.failed != nil {
		return ""
	}
	text := ""
	if old := l.lost(now); old != nil {
		text = fmt.Sprintf("; backup %s, which is newer and verified, was %s in the store, which has its old version: "+
			"recover from it by its name, or take another by quorate backup now", old.Name, old.Changed)
	}
	if ahead := l.ahead(now); len(ahead) > 0 {
		text += fmt.Sprintf("; backups with a time in the future do not count: %d, such as %s; check the clocks, then delete them",
			len(ahead), ahead[0])
	}
	return text
}
