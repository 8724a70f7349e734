package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/core/backup"
)

// The objects of one backup, in the folder UID/NAME of a store. A backup exists once it has a manifest.
const (
	archiveObject  = "archive"
	manifestObject = "manifest.json"
	verifiedObject = "verified.json"
)

// Catalog is the backups of one cluster in a store.
type Catalog struct {
	// Store is where they are.
	Store store.Store
	// UID is the cluster's.
	UID string
	// Seen are backups that were read before. One that is verified is not read again while its objects are there, except for the newest: what
	// is stored is never changed. nil: all are read.
	Seen map[string]*Entry
}

// Entry is one backup in a store.
type Entry struct {
	// Name is its name.
	Name string
	// Manifest describes it; nil: it cannot be read, see Err.
	Manifest *backup.Manifest
	// Verification is the proof that it was restored; nil: it was not.
	Verification *backup.Verification
	// Err is why the manifest cannot be used.
	Err error
	// Changed is what was done to it since it was stored, as a store that keeps versions tells; empty: nothing.
	Changed Change
	// versions are the versions of its objects that are read; of one that is not in it, that which is there now.
	versions map[string]string
	// archives are the versions of the archive among which is the one that was stored, if it is there still: until one of them was read they
	// cannot be told apart. At most one: there is no doubt.
	archives []store.Version
	// isOld reports whether an object that is read is not the one that is there now.
	isOld bool
}

// Verified reports whether the backup was restored once, as the store holds it.
func (e *Entry) Verified() bool {
	return e.Manifest != nil && len(e.archives) < 2 && e.Verification.Proves(e.Manifest)
}

// Newest returns the newest of some backups, of those that are verified only if so; nil: there is none. One with a time in the future is
// none.
func Newest(all []*Entry, verified bool, now time.Time) *Entry {
	var found *Entry
	for _, e := range all {
		if e.Manifest == nil || backup.IsAhead(e.Manifest.Taken, now) || verified && !e.Verified() {
			continue
		}
		if found == nil || e.Manifest.Taken.After(found.Manifest.Taken) {
			found = e
		}
	}
	return found
}

func (c Catalog) key(name, object string) string { return path.Join(c.UID, name, object) }

// Save stores what a function writes as the backup with a name: the archive first, then the manifest, with which the backup exists. The
// archive is stored as a whole or not at all.
func (c Catalog) Save(ctx context.Context, name string, take func(io.Writer) (*Taken, error)) (*Taken, error) {
	read, write := io.Pipe()
	var taken *Taken
	taking := make(chan error, 1)
	go func() {
		var err error
		taken, err = take(write)
		_ = write.CloseWithError(err)
		taking <- err
	}()
	stored := c.Store.Put(ctx, c.key(name, archiveObject), read)
	_ = read.CloseWithError(cmpError(stored, io.ErrClosedPipe))
	if err := <-taking; err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, stored) {
		return nil, err
	}
	if stored != nil {
		return nil, stored
	}
	if taken.Manifest.Name != name || taken.Manifest.Cluster.UID != c.UID {
		return nil, fmt.Errorf("storing backup %s of cluster %s: its manifest says %s of %s", name, c.UID, taken.Manifest.Name,
			taken.Manifest.Cluster.UID)
	}
	data, err := taken.Manifest.Encode()
	if err != nil {
		return nil, err
	}
	return taken, c.Store.Put(ctx, c.key(name, manifestObject), bytes.NewReader(data))
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// List reads all backups of the cluster from the store, the oldest name first. A backup whose manifest cannot be read is listed with the
// error.
func (c Catalog) List(ctx context.Context) ([]*Entry, error) {
	names, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Entry
	newest := true
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		if !slices.Contains(names[name], manifestObject) {
			continue
		}
		if seen := c.Seen[name]; !newest && seen != nil && seen.Verified() && isWhole(names[name]) {
			all = append(all, seen)
			continue
		}
		e, err := c.entry(ctx, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names[name], archiveObject) {
			e.Verification = nil // somebody took the archive away
		}
		newest = newest && (!e.Verified() || backup.IsAhead(e.Manifest.Taken, time.Now()))
		all = append(all, e)
	}
	slices.Reverse(all)
	return all, nil
}

// isWhole reports whether all objects of a verified backup are there.
func isWhole(objects []string) bool {
	return slices.Contains(objects, archiveObject) && slices.Contains(objects, manifestObject) && slices.Contains(objects, verifiedObject)
}

// names returns the objects of each backup, and of each that was not finished.
func (c Catalog) names(ctx context.Context) (map[string][]string, error) {
	names := map[string][]string{}
	err := c.Store.List(ctx, c.UID, func(key string) error {
		name, object, _ := strings.Cut(strings.TrimPrefix(key, c.UID+"/"), "/")
		if !backup.NameTime(name).IsZero() {
			names[name] = append(names[name], object)
		}
		return nil
	})
	return names, err
}

// Get reads one backup. The error is store.ErrNotFound where there is none.
func (c Catalog) Get(ctx context.Context, name string) (*Entry, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	e, err := c.entry(ctx, name)
	if err == nil && errors.Is(e.Err, store.ErrNotFound) {
		return nil, e.Err
	}
	return e, err
}

// checkName says what a backup may be named.
func checkName(name string) error {
	if backup.NameTime(name).IsZero() {
		return fmt.Errorf("invalid name of a backup %q: must be a time and a suffix, such as 20261127t170312z-x7k2p", name)
	}
	return nil
}

// entry reads the manifest and the proof. Its own error means that the store does not answer.
func (c Catalog) entry(ctx context.Context, name string) (*Entry, error) {
	e := &Entry{Name: name}
	data, err := c.small(ctx, e, manifestObject)
	if errors.Is(err, store.ErrNotFound) {
		e.Err = err
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	if e.Manifest, e.Err = c.decode(name, data); e.Err != nil {
		return e, nil
	}
	data, err = c.small(ctx, e, verifiedObject)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return e, err
	}
	// A proof that cannot be read is none.
	if v, err := backup.DecodeVerification(data); err == nil {
		e.Verification = v
	}
	return e, nil
}

// decode reads the manifest of a backup with a name.
func (c Catalog) decode(name string, data []byte) (*backup.Manifest, error) {
	manifest, err := backup.DecodeManifest(data)
	if err == nil && (manifest.Name != name || manifest.Cluster.UID != c.UID || manifest.Archive == nil) {
		err = fmt.Errorf("it is the manifest of backup %s of cluster %s", manifest.Name, manifest.Cluster.UID)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", name, err)
	}
	return manifest, nil
}

// open opens an object of a backup.
func (c Catalog) open(ctx context.Context, e *Entry, object string) (io.ReadCloser, error) {
	if err := checkName(e.Name); err != nil {
		return nil, err
	}
	id := e.versions[object]
	if id == "" {
		return c.Store.Get(ctx, c.key(e.Name, object))
	}
	versioned, is := c.Store.(store.Versioned)
	if !is {
		return nil, store.ErrNoVersions
	}
	return versioned.GetVersion(ctx, c.key(e.Name, object), id)
}

// small reads an object that has at most as many bytes as a manifest.
func (c Catalog) small(ctx context.Context, e *Entry, object string) (data []byte, err error) {
	body, err := c.open(ctx, e, object)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	return io.ReadAll(io.LimitReader(body, backup.MostManifest+1))
}

// Archive opens the archive of a backup.
func (c Catalog) Archive(ctx context.Context, e *Entry) (io.ReadCloser, error) {
	return c.open(ctx, e, archiveObject)
}

// Snapshot writes the snapshot of a backup, of at most so many bytes, to a stream. After an error nothing that was written may be used.
func (c Catalog) Snapshot(ctx context.Context, e *Entry, identities []age.Identity, most int64, to io.Writer) (err error) {
	body, err := c.Archive(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	_, err = archive.Read(body, identities, most, to)
	return err
}

// Files returns the files that the archive of a backup holds beside the snapshot. The archive is read to its end and compared with its
// manifest.
func (c Catalog) Files(ctx context.Context, e *Entry, identities []age.Identity) (_ map[string][]byte, err error) {
	body, err := c.Archive(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	contents, err := check(e.Manifest, body, identities, io.Discard)
	if err != nil {
		return nil, err
	}
	return contents.Files, nil
}

// Proof says how a backup is verified.
type Proof struct {
	// Restored is what the snapshot became while the backup was taken. The archive is read back then and compared by its digest only.
	Restored *backup.Restored
	// Identities decrypt the archive, and Scratch is the folder in which it is restored, within Limits; where Restored is nil.
	Identities []age.Identity
	Scratch    string
	Limits     scratch.Limits
	// Now is the time.
	Now time.Time
}

// Verify reads the archive of a backup back from the store, proves that it can be restored, and stores the proof. Beside a backup that was
// deleted or overwritten no proof is stored: it is not there. An error says what is wrong with the backup, or that the store did not
// answer.
func (c Catalog) Verify(ctx context.Context, e *Entry, p Proof) (*backup.Verification, error) {
	if e.Manifest == nil {
		return nil, e.Err
	}
	body, err := c.Archive(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	v := &backup.Verification{Name: e.Name, At: p.Now.UTC().Truncate(time.Second), Archive: e.Manifest.Archive.Digest}
	if p.Restored == nil {
		p.Restored, err = Restore(ctx, e.Manifest, body, p)
	} else {
		err = compare(e.Manifest, body)
	}
	if err == nil {
		err = e.Manifest.Differs(*p.Restored)
	}
	if err != nil {
		return nil, fmt.Errorf("verifying backup %s: %w", e.Name, err)
	}
	if v.Restored = *p.Restored; e.isOld {
		return v, nil
	}
	data, err := v.Encode()
	if err != nil {
		return nil, err
	}
	return v, c.Store.Put(ctx, c.key(e.Name, verifiedObject), bytes.NewReader(data))
}

// ErrNotFound is the error of a backup that the store does not have.
var ErrNotFound = store.ErrNotFound

// ErrDamaged is the error of an archive that is not the one that its manifest describes.
var ErrDamaged = errors.New("the archive in the store is not the one that the manifest describes: it was changed or damaged")

// Compare reads the archive of a backup, and compares it with its manifest. The error is ErrDamaged where they differ; others say that the
// store could not be read.
func (c Catalog) Compare(ctx context.Context, e *Entry) error {
	body, err := c.Archive(ctx, e)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return compare(e.Manifest, body)
}

func compare(m *backup.Manifest, body io.Reader) error {
	sum, err := archive.Sum(io.LimitReader(body, m.Archive.Size+1))
	if err == nil && sum != m.Archive.Digest {
		err = ErrDamaged
	}
	return err
}

// Restore reads an archive, compares it with its manifest and restores it in a scratch folder.
func Restore(ctx context.Context, m *backup.Manifest, body io.Reader, p Proof) (*backup.Restored, error) {
	s, err := scratch.Start(ctx, p.Scratch, m.Revision(), p.Limits)
	if err != nil {
		return nil, err
	}
	if _, err := check(m, body, p.Identities, s); err != nil {
		s.Discard()
		return nil, err
	}
	return s.Wait()
}

// check reads an archive to its end, compares all of it with the manifest beside it, and writes the snapshot to a stream.
func check(m *backup.Manifest, body io.Reader, identities []age.Identity, to io.Writer) (*archive.Contents, error) {
	sums, writes := io.Pipe()
	summed := make(chan error, 1)
	go func() {
		err := compare(m, sums)
		_ = sums.CloseWithError(cmpError(err, io.ErrClosedPipe))
		summed <- err
	}()
	whole := io.TeeReader(body, writes)
	contents, err := archive.Read(whole, identities, m.Snapshot.Size, to)
	if err == nil {
		_, err = io.Copy(io.Discard, whole)
	}
	_ = writes.Close()
	different := <-summed
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err == nil:
		err = different
	}
	if err != nil {
		return nil, err
	}
	outside := *m
	outside.Archive = nil
	a, err := outside.Encode()
	if err != nil {
		return nil, err
	}
	if b, err := contents.Manifest.Encode(); err != nil || !bytes.Equal(a, b) {
		return nil, errors.New("the manifest inside the archive is not the one beside it")
	}
	return contents, nil
}

// Copy writes an archive to a stream and compares it with its manifest. After an error nothing that was written may be used.
func Copy(m *backup.Manifest, from io.Reader, to io.Writer) error {
	return compare(m, io.TeeReader(from, to))
}
