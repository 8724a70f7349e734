package store

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"
)

const (
	// mostVersions is how many versions of objects, and markers, a folder may have.
	mostVersions = 300_000
	// longestID is how many bytes the ID of a version may have, and its tag.
	longestID = 1024
	// noSuchVersion is the code of an error that minio-go has no name for.
	noSuchVersion = "NoSuchVersion"
)

// ListVersions implements Versioned. A bucket without versions has one of each object.
func (b *bucket) ListVersions(ctx context.Context, folder, after string, each func(Version) error) error {
	if err := checkKey(folder); err != nil {
		return err
	}
	defer b.idle()
	ctx, cancel := paged(ctx)
	defer cancel()
	options := minio.ListObjectsOptions{Prefix: b.key(folder) + "/", Recursive: true, WithVersions: true}
	if after != "" {
		options.StartAfter = options.Prefix + after
	}
	n := 0
	for object := range b.client.ListObjectsIter(ctx, b.name, options) {
		if object.Err != nil {
			return failed("listing the versions of", folder, cause(ctx, object.Err))
		}
		if n++; n > mostVersions {
			return fmt.Errorf("listing the versions of %s: it has more than %d", folder, mostVersions)
		}
		key, is := strings.CutPrefix(object.Key, options.Prefix)
		if !is || checkKey(key) != nil || object.Key <= options.StartAfter || !isID(object.VersionID) {
			continue // not ours
		}
		if object.IsDeleteMarker && !object.IsLatest {
			continue // the object is there again
		}
		v := Version{Key: folder + "/" + key, ID: object.VersionID, Deleted: object.IsDeleteMarker, Size: object.Size}
		if len(object.ETag) <= longestID {
			v.Content = object.ETag
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return failed("listing the versions of", folder, context.Cause(ctx))
}

// isID reports whether a text may be the ID of a version.
func isID(s string) bool {
	isOdd := func(r rune) bool { return r <= ' ' || r > '~' }
	return s != "" && len(s) <= longestID && !strings.ContainsFunc(s, isOdd)
}

// GetVersion implements Versioned.
func (b *bucket) GetVersion(ctx context.Context, key, id string) (io.ReadCloser, error) {
	if !isID(id) {
		return nil, fmt.Errorf("version %q of %s: must be 1 to %d printable ASCII characters without spaces", id, key, longestID)
	}
	return b.get(ctx, key, minio.GetObjectOptions{VersionID: id})
}
