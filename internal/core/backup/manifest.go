package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// FormatVersion is the version of the archive's format and of its manifest. A reader refuses all others.
const FormatVersion = 1

// MostManifest is the most bytes that an encoded manifest may have.
const MostManifest = 1 << 20

// Manifest describes one backup. The store holds it beside the archive, and without it an archive is not a backup. A second copy, in which
// Archive is empty, is the last file inside the archive.
type Manifest struct {
	// Version is FormatVersion.
	Version int `json:"version"`
	// Name is the backup's name, unique among those of the cluster.
	Name string `json:"name"`
	// Cluster is the cluster that was backed up.
	Cluster Cluster `json:"cluster"`
	// Taken is when the member was asked for the snapshot, in seconds. Decisions use this time, never a time of the store.
	Taken time.Time `json:"taken"`
	// Kubernetes is the version that the control plane ran, such as v1.36.3; empty: etcd runs without a control plane.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Etcd describes etcd and the member that was asked.
	Etcd Etcd `json:"etcd"`
	// Witnesses are the hashes that the member answered before and after the snapshot. At least one is given.
	Witnesses []Witness `json:"witnesses"`
	// Keys is how many keys the member counted at the revision of the first witness.
	Keys int64 `json:"keys"`
	// Snapshot is the digest of the snapshot as the member sent it, its own checksum included.
	Snapshot Digest `json:"snapshot"`
	// Fingerprints are SHA-256 digests of the authorities' certificates and the public keys that the cluster needs, by file name. They are
	// there even if the files are not.
	Fingerprints map[string]string `json:"fingerprints,omitempty"`
	// Files are the digests of the other files of the archive, by name: keys and configuration. Only an encrypted archive has any.
	Files map[string]Digest `json:"files,omitempty"`
	// Archive is the digest of the archive as the store holds it; nil in the copy inside the archive.
	Archive *Archive `json:"archive,omitempty"`
}

// Cluster names a cluster.
type Cluster struct {
	// UID is the Cluster object's UID. Retention deletes only backups of this UID.
	UID string `json:"uid"`
	// Namespace and Name are those of the Cluster.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Etcd describes an etcd cluster at the moment of a backup.
type Etcd struct {
	// Version is the member's version, such as 3.6.16.
	Version string `json:"version"`
	// Storage is the format of its data, such as 3.6.0; empty: the member does not report it, as 3.5 does not.
	Storage string `json:"storage,omitempty"`
	// Cluster is etcd's cluster ID, in hexadecimal.
	Cluster string `json:"cluster"`
	// Term is the raft term.
	Term uint64 `json:"term"`
	// Member is the ID of the member that sent the snapshot, in hexadecimal.
	Member string `json:"member"`
	// Members are all members.
	Members []Member `json:"members"`
}

// Member is one member of etcd.
type Member struct {
	// ID is the member's ID, in hexadecimal.
	ID string `json:"id"`
	// Name is the member's name.
	Name string `json:"name"`
	// PeerURLs are the addresses at which other members reach it.
	PeerURLs []string `json:"peerURLs"`
	// Learner reports whether it has no vote.
	Learner bool `json:"learner,omitempty"`
}

// Witness is the hash of all keys at one revision, as a member answered it.
type Witness struct {
	// Revision is the revision up to which keys are hashed.
	Revision int64 `json:"revision"`
	// CompactRevision is the revision at which the member was compacted. Hashes of different values cannot be compared.
	CompactRevision int64 `json:"compactRevision"`
	// Hash is the answer. It covers each value that can be read at Revision and each that was written after CompactRevision; not those from
	// before that were replaced since, which a recovery marks as compacted.
	Hash uint32 `json:"hash"`
}

// Digest is the size and the SHA-256 digest of some bytes.
type Digest struct {
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is in hexadecimal.
	SHA256 string `json:"sha256"`
}

// Archive is the digest of an archive and how it is protected.
type Archive struct {
	Digest
	// Recipients are the age recipients that can decrypt it; empty: it is not encrypted.
	Recipients []string `json:"recipients,omitempty"`
}

// Encrypted reports whether the archive is encrypted.
func (a *Archive) Encrypted() bool { return a != nil && len(a.Recipients) > 0 }

// Revision returns the revision of etcd that the backup certainly holds.
func (m *Manifest) Revision() int64 {
	if len(m.Witnesses) == 0 {
		return 0
	}
	return m.Witnesses[0].Revision
}

// Check returns why the manifest cannot be used.
func (m *Manifest) Check() error {
	switch {
	case m.Version != FormatVersion:
		return fmt.Errorf("version %d: must be %d", m.Version, FormatVersion)
	case !IsName(m.Name):
		return fmt.Errorf("name %q: must be 1 to %d lower-case letters, digits and dashes", m.Name, longestName)
	case !IsName(m.Cluster.UID):
		return fmt.Errorf("cluster.uid %q: must be 1 to %d lower-case letters, digits and dashes", m.Cluster.UID, longestName)
	case m.Taken.IsZero() || !m.Taken.Equal(m.Taken.Truncate(time.Second)) || m.Taken.Location() != time.UTC:
		return fmt.Errorf("taken %q: must be whole seconds in UTC", m.Taken.Format(time.RFC3339Nano))
	case len(m.Witnesses) == 0:
		return errors.New("witnesses: must not be empty")
	case m.Keys < 0:
		return fmt.Errorf("keys %d: must not be negative", m.Keys)
	}
	for _, w := range m.Witnesses {
		if w.Revision < 1 || w.Revision != m.Revision() || w.CompactRevision > w.Revision {
			return fmt.Errorf("witnesses: revision %d, compacted at %d: all must have one revision, not below their compaction", w.Revision,
				w.CompactRevision)
		}
	}
	return m.checkDigests()
}

func (m *Manifest) checkDigests() error {
	if err := m.Snapshot.check("snapshot"); err != nil {
		return err
	}
	for name, d := range m.Files {
		if !IsFile(name) {
			return fmt.Errorf("files: name %q: must be a relative path of letters, digits, dots, dashes and underscores", name)
		}
		if err := d.check("files." + name); err != nil {
			return err
		}
	}
	if m.Archive == nil {
		return nil
	}
	if len(m.Files) > 0 && !m.Archive.Encrypted() {
		return errors.New("files: must be empty in an archive that is not encrypted")
	}
	return m.Archive.check("archive")
}

func (d Digest) check(field string) error {
	sum, err := hex.DecodeString(d.SHA256)
	if err != nil || len(sum) != sha256.Size || strings.ToLower(d.SHA256) != d.SHA256 || d.Size < 0 {
		return fmt.Errorf("%s: size %d, sha256 %q: must be a size in bytes and %d lower-case hexadecimal digits", field, d.Size, d.SHA256,
			2*sha256.Size)
	}
	return nil
}

// longestName is the most bytes of a backup's name or a cluster's UID.
const longestName = 63

// IsName reports whether a text may name a backup or a cluster in a store: lower-case letters, digits and dashes.
func IsName(s string) bool {
	return len(s) <= longestName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(s, "-") != ""
}

// IsFile reports whether a text may name a file inside an archive: a relative path that stays in its folder.
func IsFile(s string) bool {
	if len(s) > 255 {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == ""
}

// nameTime is the part of a backup's name that says when it was taken.
const nameTime = "20060102t150405z"

// Name returns the name of a backup that was taken at a time. The suffix tells it from others of the same second. Names sort by time.
func Name(taken time.Time, suffix string) string {
	return strings.ToLower(taken.UTC().Format(strings.ToUpper(nameTime))) + "-" + suffix
}

// NameTime returns the time in a name that Name returned; zero: the name is another.
func NameTime(name string) time.Time {
	text, _, _ := strings.Cut(name, "-")
	t, err := time.Parse(strings.ToUpper(nameTime), strings.ToUpper(text))
	if err != nil || !IsName(name) {
		return time.Time{}
	}
	return t
}

// sealed is a document with the digest of its bytes.
type sealed struct {
	Document json.RawMessage `json:"document"`
	SHA256   string          `json:"sha256"`
}

// Encode returns the manifest as the store holds it. Equal manifests have equal bytes.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("encoding manifest %s: %w", m.Name, err)
	}
	return seal(m)
}

// DecodeManifest reads what Encode returned. It refuses everything else: one bit that differs is an error.
func DecodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := unseal(data, m); err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}
	return m, nil
}

// seal encodes a document together with its digest.
func seal(document any) ([]byte, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", document, err)
	}
	sum := sha256.Sum256(raw)
	data, err := json.Marshal(sealed{raw, hex.EncodeToString(sum[:])})
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", document, err)
	}
	if len(data) >= MostManifest {
		return nil, fmt.Errorf("encoding %T: it has %d bytes, at most %d are allowed", document, len(data), MostManifest)
	}
	return append(data, '\n'), nil
}

// unseal reads what seal returned, and nothing else: JSON can write one document in many ways, and a changed bit could hide in them.
func unseal(data []byte, document any) error {
	if len(data) > MostManifest {
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), MostManifest)
	}
	var s sealed
	if err := strictly(data, &s); err != nil {
		return err
	}
	if sum := sha256.Sum256(s.Document); hex.EncodeToString(sum[:]) != s.SHA256 {
		return errors.New("its SHA-256 digest does not match: it was changed or damaged")
	}
	if err := strictly(s.Document, document); err != nil {
		return err
	}
	again, err := seal(document)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return errors.New("it is not written as this program writes it: it was changed or damaged")
	}
	return nil
}

func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
