package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/core/backup"
)

// Change is what was done to a backup since it was stored.
type Change string

// The values of Change.
const (
	// Deleted is a backup whose manifest or archive was deleted, by somebody or by retention.
	Deleted Change = "deleted"
	// Overwritten is one whose manifest or archive was stored again with another content. Quorate does so only where an archive is brought
	// in place of a damaged one.
	Overwritten Change = "overwritten"
)

const (
	// MostChanged is how many backups with old versions are looked at, the newest.
	MostChanged = 200
	// mostOfObject is how many versions of an object are looked at: half of them the newest, half the oldest, as somebody may overwrite it
	// again and again.
	mostOfObject = 8
)

// past is what a store says about the versions of one object.
type past struct {
	// versions are those that have a content, the newest first: mostOfObject at most.
	versions []store.Version
	// deleted reports whether the object is not there now, and differs whether two contents are not the same.
	deleted, differs bool
}

// add takes the next older version.
func (p *past) add(v store.Version) {
	if v.Deleted {
		p.deleted = true
		return
	}
	if n := len(p.versions); n > 0 {
		newer := p.versions[n-1]
		p.differs = p.differs || v.Content == "" || v.Content != newer.Content || v.Size != newer.Size
	}
	if len(p.versions) == mostOfObject {
		p.versions = slices.Delete(p.versions, mostOfObject/2, mostOfObject/2+1)
	}
	p.versions = append(p.versions, v)
}

// isCurrent reports whether a version is the one that is there now.
func (p *past) isCurrent(id string) bool {
	return !p.deleted && len(p.versions) > 0 && p.versions[0].ID == id
}

// pasts are those of the objects of one backup.
type pasts map[string]*past

// of returns what is known of an object.
func (p pasts) of(object string) *past {
	if p[object] == nil {
		return &past{}
	}
	return p[object]
}

// change is what was done to the backup; empty: nothing, or it was never one.
func (p pasts) change() Change {
	manifest, archive := p.of(manifestObject), p.of(archiveObject)
	switch {
	case len(manifest.versions) == 0 || len(archive.versions) == 0:
		return ""
	case manifest.deleted || archive.deleted:
		return Deleted
	case manifest.differs || archive.differs:
		return Overwritten
	}
	return ""
}

// histories reads what the store says about the versions of backups whose names are not before one: of the newest MostChanged and some
// more. A name with a time in the future is left out.
func (c Catalog) histories(ctx context.Context, folder, since string) (map[string]pasts, error) {
	versioned, is := c.Store.(store.Versioned)
	if !is {
		return nil, store.ErrNoVersions
	}
	all, now := map[string]pasts{}, time.Now()
	err := versioned.ListVersions(ctx, folder, since, func(v store.Version) error {
		name, object, _ := strings.Cut(strings.TrimPrefix(v.Key, c.UID+"/"), "/")
		at := backup.NameTime(name)
		isOurs := object == manifestObject || object == archiveObject || object == verifiedObject
		if !isOurs || at.IsZero() || backup.IsAhead(at, now) {
			return nil
		}
		if all[name] == nil {
			if len(all) == 2*MostChanged {
				for _, old := range slices.Sorted(maps.Keys(all))[:MostChanged] {
					delete(all, old)
				}
			}
			all[name] = pasts{}
		}
		if all[name][object] == nil {
			all[name][object] = &past{}
		}
		all[name][object].add(v)
		return nil
	})
	return all, err
}

// Changed returns those of some backups that can be used as they are in the store, in their order, and at most so many that cannot. These
// were deleted or overwritten, and are returned as their newest intact versions are, the oldest name first. Backups with a name before
// since are not looked at; empty: all are. What is in neither was overwritten, and is one too many. With an error, such as
// store.ErrNoVersions, nothing is known of versions, and all backups are returned.
func (c Catalog) Changed(ctx context.Context, all []*Entry, since string, most int) (there, changed []*Entry, err error) {
	histories, err := c.histories(ctx, c.UID, since)
	if err != nil {
		return all, nil, err
	}
	intact := map[string]Change{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(histories))) {
		of := histories[name]
		if of.change() == "" {
			intact[name] = ""
			continue
		}
		if len(changed) == most {
			continue
		}
		e, err := c.before(ctx, name, of)
		if err != nil {
			return all, nil, err
		}
		if e.Manifest != nil && !e.isOld && len(e.archives) < 2 {
			intact[name] = e.Changed
		} else {
			changed = append(changed, e)
		}
	}
	for _, e := range all {
		if change, is := intact[e.Name]; is || histories[e.Name] == nil {
			now := *e // others may remember it
			now.Changed = change
			there = append(there, &now)
		}
	}
	slices.Reverse(changed)
	return there, changed, nil
}

// before returns a backup as the newest intact versions of its objects have it. If no version of the manifest can be used, or of the
// archive that it describes, the entry has an error.
func (c Catalog) before(ctx context.Context, name string, p pasts) (*Entry, error) {
	e := &Entry{Name: name, Changed: p.change(), versions: map[string]string{}}
	for _, v := range p.of(manifestObject).versions {
		m, err := c.manifestOf(ctx, e, v)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		if e.archives = p.of(archiveObject).fitting(m.Archive.Size); len(e.archives) > 0 {
			e.Manifest = m
			break
		}
	}
	if e.Manifest == nil {
		e.Err = fmt.Errorf("backup %s was %s in the store, and no version is left that can be used", name, e.Changed)
		return e, nil
	}
	e.isOld = !p.of(manifestObject).isCurrent(e.versions[manifestObject])
	e.take(e.archives[0], p)
	return e, c.proofOf(ctx, e, p.of(verifiedObject).versions)
}

// IsOld reports whether the backup is read as it was before somebody deleted or overwrote it.
func (e *Entry) IsOld() bool { return e.isOld }

// take has a version of the archive read.
func (e *Entry) take(v store.Version, p pasts) {
	e.versions[archiveObject] = v.ID
	e.isOld = e.isOld || !p.of(archiveObject).isCurrent(v.ID)
}

// fitting returns the versions that may have a size: those of that size, and those whose size the store does not say.
func (p *past) fitting(size int64) []store.Version {
	var fit []store.Version
	for _, v := range p.versions {
		if v.Size == size || v.Size == 0 {
			fit = append(fit, v)
		}
	}
	return fit
}

// manifestOf reads a version of the manifest, which is read from then on; nil: it cannot be used.
func (c Catalog) manifestOf(ctx context.Context, e *Entry, v store.Version) (*backup.Manifest, error) {
	e.versions[manifestObject] = v.ID
	data, err := c.small(ctx, e, manifestObject)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, _ := c.decode(e.Name, data) // another version may be better
	return m, nil
}

// proofOf reads the newest version of the proof that proves the backup, if there is one.
func (c Catalog) proofOf(ctx context.Context, e *Entry, versions []store.Version) error {
	for _, v := range versions {
		e.versions[verifiedObject] = v.ID
		data, err := c.small(ctx, e, verifiedObject)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if proof, bad := backup.DecodeVerification(data); err == nil && bad == nil && proof.Proves(e.Manifest) {
			e.Verification = proof
			return nil
		}
	}
	return nil
}

// Find is Get, also for a backup that was deleted or overwritten in a store that keeps versions: it is returned as it was before. Where the
// archive was overwritten, its versions are read until the one is found that was stored.
func (c Catalog) Find(ctx context.Context, name string) (*Entry, error) {
	now, err := c.Get(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	histories, failed := c.histories(ctx, path.Join(c.UID, name), "")
	of := histories[name]
	if failed != nil && !errors.Is(failed, store.ErrNoVersions) && err != nil {
		return nil, fmt.Errorf("%w; its old versions cannot be read: %w", err, failed)
	}
	if failed != nil || of.change() == "" {
		return now, err
	}
	before, failed := c.before(ctx, name, of)
	if failed == nil {
		if failed = before.Err; failed == nil {
			failed = c.settle(ctx, before, of)
		}
	}
	switch {
	case failed == nil:
		return before, nil
	case err == nil:
		return now, nil // what is there now says itself what is wrong with it
	}
	return nil, fmt.Errorf("%w; its old versions cannot be used: %w", err, failed)
}

// settle reads versions of the archive, the newest first, until it finds the one that the manifest describes. Where there is but one,
// the reader of it finds out.
func (c Catalog) settle(ctx context.Context, e *Entry, p pasts) error {
	if len(e.archives) < 2 {
		return nil
	}
	isOld := !p.of(manifestObject).isCurrent(e.versions[manifestObject])
	for _, v := range e.archives {
		e.isOld = isOld
		e.take(v, p)
		err := c.Compare(ctx, e)
		if err == nil {
			e.archives = nil
			return nil
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return ErrDamaged
}
