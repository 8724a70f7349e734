package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/core/backup"
)

// ErrNoArchive is the error of a file that Quorate did not make. A snapshot as etcdctl saves it says neither of which cluster it is nor
// with which authorities it was taken, and no member's answer proves what it should hold.
var ErrNoArchive = errors.New("the file is no archive that quorate backup get fetched; " +
	"a snapshot of etcdctl cannot be proven to be of this cluster")

// Import stores an archive that a person brings as a backup of this cluster, and proves it by restoring it, as Verify does. The archive is
// one that Quorate made: the manifest inside says of which cluster it is. It is not stored again where the store has it undamaged.
func (c Catalog) Import(ctx context.Context, file io.ReadSeeker, p Proof) (*Entry, error) {
	m, err := readManifest(file, p)
	if err != nil {
		return nil, err
	}
	if m.Cluster.UID != c.UID {
		return nil, fmt.Errorf("the archive is backup %s of cluster %s/%s with the UID %s, and this cluster has the UID %s",
			m.Name, m.Cluster.Namespace, m.Cluster.Name, m.Cluster.UID, c.UID)
	}
	if err := checkName(m.Name); err != nil {
		return nil, err
	}
	e, err := c.Get(ctx, m.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		err = c.putArchive(ctx, file, m)
	case err != nil:
	case e.Manifest == nil || e.Manifest.Archive.Digest != m.Archive.Digest:
		return nil, fmt.Errorf("the store has another backup with the name %s", m.Name)
	default:
		if err = c.Compare(ctx, e); errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) {
			err = c.putArchive(ctx, file, m)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("storing backup %s: %w", m.Name, err)
	}
	if e, err = c.Get(ctx, m.Name); err != nil {
		return nil, err
	}
	if e.Verification, err = c.Verify(ctx, e, p); err != nil {
		return nil, err
	}
	return e, nil
}

// readManifest reads a whole archive, and returns the manifest that the store is to have beside it.
func readManifest(file io.ReadSeeker, p Proof) (*backup.Manifest, error) {
	encrypted, err := isArchive(file)
	if err != nil {
		return nil, err
	}
	contents, err := archive.Read(file, p.Identities, p.Limits.Most(), io.Discard)
	if err != nil {
		return nil, err
	}
	m := contents.Manifest
	m.Archive = &backup.Archive{}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if m.Archive.Digest, err = archive.Sum(file); err != nil {
		return nil, err
	}
	if encrypted {
		if m.Archive.Recipients, err = recipients(file, p.Identities); err != nil {
			return nil, err
		}
	}
	return m, m.Check()
}

// How an archive begins: one that is encrypted, and one that is compressed only.
const (
	ageMagic  = "age-encryption.org/"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// isArchive reports whether a file is an encrypted archive. What is no archive at all is an error.
func isArchive(file io.ReadSeeker) (encrypted bool, err error) {
	begin := make([]byte, len(ageMagic))
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	encrypted = string(begin[:n]) == ageMagic
	if !encrypted && !bytes.HasPrefix(begin[:n], []byte(zstdMagic)) {
		return false, ErrNoArchive
	}
	_, err = file.Seek(0, io.SeekStart)
	return encrypted, err
}

// recipients are those of the identities that decrypt an archive.
func recipients(file io.ReadSeeker, identities []age.Identity) ([]string, error) {
	var all []string
	for _, i := range identities {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		known, is := i.(*age.X25519Identity)
		if _, err := age.Decrypt(file, i); err == nil && is {
			all = append(all, known.Recipient().String())
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no identity of the kind X25519 decrypts the archive")
	}
	return all, nil
}

// putArchive stores an archive, and its manifest after it.
func (c Catalog) putArchive(ctx context.Context, file io.ReadSeeker, m *backup.Manifest) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := c.Store.Put(ctx, c.key(m.Name, archiveObject), file); err != nil {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return c.Store.Put(ctx, c.key(m.Name, manifestObject), bytes.NewReader(data))
}
