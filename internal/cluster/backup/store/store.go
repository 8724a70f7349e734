// Package store keeps objects by key: in a folder, or in a bucket of an S3-compatible service. An object is there as a whole or not at all.
// It does not know what the objects are.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrNotFound is the error of a key without an object.
var ErrNotFound = errors.New("not found in the store")

// ErrForbidden is the error of an operation that the store's credentials do not allow.
var ErrForbidden = errors.New("the store's credentials do not allow it")

// Store keeps objects. Its methods may be called at the same time.
type Store interface {
	// Put stores an object, whose size is not known before, in place of the one with this key. If reading the body fails, nothing is stored.
	Put(ctx context.Context, key string, body io.Reader) error
	// Get opens an object. The error is ErrNotFound where there is none.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// List calls a function with the key of each object below a folder, until the function returns an error, which it returns. The order is
	// not defined.
	List(ctx context.Context, folder string, each func(key string) error) error
	// Delete deletes an object. A key without one is no error.
	Delete(ctx context.Context, key string) error
	// ClearUploads removes what uploads left below a folder that began before a time and did not end.
	ClearUploads(ctx context.Context, folder string, before time.Time) error
}

// ErrNoVersions is the error of a store that cannot tell the versions of its objects.
var ErrNoVersions = errors.New("the store keeps no versions")

// Version is one version of an object.
type Version struct {
	// Key is the object's, and ID the version's.
	Key, ID string
	// Deleted reports whether it is no object but the marker that one was deleted, and is not there now.
	Deleted bool
	// Size is in bytes, and Content equal for versions of an object with the same content; 0 and empty: the store does not say.
	Size    int64
	Content string
}

// Versioned is a store that can tell the versions of its objects: those that are there, and those that were deleted or overwritten. Whether
// it keeps any is up to its owner.
type Versioned interface {
	Store
	// ListVersions calls a function with each version of the objects below a folder, those of one object the newest first, until the function
	// returns an error, which it returns. Where a marker comes among them is up to the server; that of an object that is there again is left
	// out. After leaves out what lies before it: keys up to the folder, a slash and after; empty: nothing.
	ListVersions(ctx context.Context, folder, after string, each func(Version) error) error
	// GetVersion opens a version of an object. The error is ErrNotFound where it is not there any more, or is a marker.
	GetVersion(ctx context.Context, key, id string) (io.ReadCloser, error)
}

// checkKey says in what a key cannot be used: its parts must be names that stay in their folder.
func checkKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.ContainsAny(part, "\\\x00\n") {
			return fmt.Errorf("key %q: must consist of names that are separated by slashes and begin with no dot", key)
		}
	}
	return nil
}
