package backup

import (
	"fmt"
	"time"
)

// Restored is what a snapshot became after it was restored into a scratch folder.
type Restored struct {
	// Witness is the hash of its keys at the manifest's revision.
	Witness Witness `json:"witness"`
	// Keys is how many keys it has at that revision.
	Keys int64 `json:"keys"`
	// Latest is its newest revision.
	Latest int64 `json:"latest"`
	// Snapshot is the digest of the bytes that were restored.
	Snapshot Digest `json:"snapshot"`
}

// Verification is the proof that a backup was restored once. The store holds it beside the manifest.
type Verification struct {
	// Name is the backup's name.
	Name string `json:"name"`
	// At is when the restored data was compared, in whole seconds.
	At time.Time `json:"at"`
	// Archive is the digest of the archive that was read back from the store.
	Archive Digest `json:"archive"`
	// Restored is what it became.
	Restored Restored `json:"restored"`
}

// Encode returns the verification as the store holds it.
func (v *Verification) Encode() ([]byte, error) { return seal(v) }

// DecodeVerification reads what Encode returned. It refuses everything else.
func DecodeVerification(data []byte) (*Verification, error) {
	v := &Verification{}
	if err := unseal(data, v); err != nil {
		return nil, fmt.Errorf("reading verification: %w", err)
	}
	return v, nil
}

// Differs returns why the restored snapshot is not what the manifest describes; nil: it is.
func (m *Manifest) Differs(r Restored) error {
	if r.Snapshot != m.Snapshot {
		return fmt.Errorf("the snapshot has %d bytes with digest %s, the manifest says %d bytes with digest %s",
			r.Snapshot.Size, r.Snapshot.SHA256, m.Snapshot.Size, m.Snapshot.SHA256)
	}
	if r.Latest < m.Revision() {
		return fmt.Errorf("the restored data ends at revision %d, the member had revision %d before the snapshot", r.Latest, m.Revision())
	}
	if r.Keys != m.Keys {
		return fmt.Errorf("the restored data has %d keys at revision %d, the member counted %d", r.Keys, m.Revision(), m.Keys)
	}
	for _, w := range m.Witnesses {
		if w.CompactRevision != r.Witness.CompactRevision {
			continue
		}
		if w != r.Witness {
			return fmt.Errorf("the restored data has hash %08x at revision %d, the member answered %08x", r.Witness.Hash, r.Witness.Revision, w.Hash)
		}
		return nil
	}
	return fmt.Errorf("the restored data was compacted at revision %d, and the member answered no hash for it: take another backup",
		r.Witness.CompactRevision)
}

// Proves reports whether the verification is one of this backup as the store must hold it.
func (v *Verification) Proves(m *Manifest) bool {
	return v != nil && m.Archive != nil && v.Name == m.Name && v.Archive == m.Archive.Digest && m.Differs(v.Restored) == nil
}
