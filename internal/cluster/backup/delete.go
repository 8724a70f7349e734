package backup

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/core/backup"
)

// Abandoned is after how long what has no manifest counts as left over from an upload that failed.
const Abandoned = 24 * time.Hour

// Delete deletes a backup: its manifest first, so that what is left, if that is all, is no backup any more. An object that is not listed is
// not deleted: a bucket with versions would get one more marker each time.
func (c Catalog) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	var objects []string
	err := c.Store.List(ctx, path.Join(c.UID, name), func(key string) error {
		objects = append(objects, strings.TrimPrefix(key, c.UID+"/"+name+"/"))
		return nil
	})
	if err != nil {
		return err
	}
	return c.delete(ctx, name, objects)
}

// delete deletes those objects of a backup that are there.
func (c Catalog) delete(ctx context.Context, name string, there []string) error {
	for _, object := range []string{manifestObject, verifiedObject, archiveObject} {
		if !slices.Contains(there, object) {
			continue
		}
		if err := c.Store.Delete(ctx, c.key(name, object)); err != nil {
			return err
		}
	}
	return nil
}

// mostRefusals is after how many deletions that the store refused no more are tried: it refuses all, or those that are locked.
const mostRefusals = 3

// DeleteAll deletes backups, in their order. What the store refuses to delete, as what is locked, holds up no others; the error is
// store.ErrForbidden then. It returns those that were deleted.
func (c Catalog) DeleteAll(ctx context.Context, names []string) (deleted []string, err error) {
	refused := 0
	for _, name := range names {
		failed := c.Delete(ctx, name)
		switch {
		case failed == nil:
			deleted = append(deleted, name)
			continue
		case !errors.Is(failed, store.ErrForbidden):
			return deleted, failed
		}
		err = failed
		if refused++; refused == mostRefusals {
			break
		}
	}
	return deleted, err
}

// Clear removes what uploads left behind that failed or were stopped, once it is a day old.
func (c Catalog) Clear(ctx context.Context, now time.Time) error {
	before := now.Add(-Abandoned)
	if err := c.Store.ClearUploads(ctx, c.UID, before); err != nil {
		return err
	}
	names, err := c.names(ctx)
	if err != nil {
		return err
	}
	var refused error
	for name, objects := range names {
		if slices.Contains(objects, manifestObject) || !backup.NameTime(name).Before(before) {
			continue
		}
		if err := c.delete(ctx, name, objects); errors.Is(err, store.ErrForbidden) {
			refused = err
		} else if err != nil {
			return err
		}
	}
	return refused
}
