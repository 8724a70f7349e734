// Package backup takes backups of etcd, proves them by restoring them, and finds them in a store. It knows in which order this is done and
// how a store is laid out. It does not know when a backup is due, nor what a store is.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// Request describes a backup that is to be taken.
type Request struct {
	// Name is the backup's name, as backup.Name returns it.
	Name string
	// Cluster and Kubernetes are for the manifest.
	Cluster    backup.Cluster
	Kubernetes string
	// Recipients are age recipients; empty: the archive is not encrypted.
	Recipients []string
	// Fingerprints are for the manifest.
	Fingerprints map[string]string
	// Files are keys and configuration by name. They are left out if there are no recipients.
	Files map[string][]byte
	// Scratch is the folder in which the snapshot is restored; empty: the backup is not verified.
	Scratch string
	// Limits bound the restore, and the size of the snapshot.
	Limits scratch.Limits
	// Now is when the backup begins.
	Now time.Time
}

// Taken is a backup that was written to a stream.
type Taken struct {
	// Manifest describes it.
	Manifest *backup.Manifest
	// Restored is what became of it in the scratch folder; nil: it was not restored.
	Restored *backup.Restored
	// Unproven is why Restored proves nothing; nil: it is what the manifest describes.
	Unproven error
}

// source is the member that a backup is taken from.
type source struct {
	client   *etcd.Cluster
	target   etcd.Target
	position etcd.Position
	members  []backup.Member
}

// choose surveys the members and returns the one to take the backup from.
func choose(ctx context.Context, client *etcd.Cluster, targets []etcd.Target) (*source, error) {
	survey := client.Survey(ctx, targets)
	if !survey.Agreed {
		return nil, fmt.Errorf("choosing an etcd member: %s", survey.Why)
	}
	var candidates []backup.Candidate
	found := map[uint64]*source{}
	s := source{client: client}
	for _, m := range survey.Members {
		s.members = append(s.members, backup.Member{ID: etcd.FormatID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.Learner})
		c := backup.Candidate{ID: m.ID, Name: m.Name, Learner: m.Learner, Leader: m.Leader}
		at := slices.IndexFunc(targets, func(t etcd.Target) bool { return t.Name == m.At })
		if m.Health == plan.Healthy && at >= 0 {
			position, err := client.Position(ctx, targets[at])
			c.Healthy = err == nil && position.Member == m.ID
			c.Index, c.Applied = position.Index, position.Applied
			found[m.ID] = &source{client: client, target: targets[at], position: position}
		}
		candidates = append(candidates, c)
	}
	chosen, err := backup.Choose(candidates)
	if err != nil {
		return nil, fmt.Errorf("choosing an etcd member: %w", err)
	}
	found[chosen.ID].members = s.members
	return found[chosen.ID], nil
}

// Take chooses a member, and writes a backup of it to a stream. The snapshot is restored meanwhile. An error means that there is no backup;
// whether there is a proof stands in Taken.
func Take(ctx context.Context, client *etcd.Cluster, targets []etcd.Target, r Request, to io.Writer) (*Taken, error) {
	s, err := choose(ctx, client, targets)
	if err != nil {
		return nil, err
	}
	return s.take(ctx, r, to)
}

// TakeSurvivor is Take for an etcd that has lost its quorum: it asks the member with the newest data, or the one that is named.
func TakeSurvivor(
	ctx context.Context, client *etcd.Cluster, targets []etcd.Target, name string, r Request, to io.Writer,
) (*Taken, string, error) {
	found := map[string]*source{}
	var all []backup.Survivor
	var failed error
	for _, t := range targets {
		if name != "" && t.Name != name {
			continue
		}
		position, err := client.Position(ctx, t)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		found[t.Name] = &source{client: client, target: t, position: position}
		all = append(all, backup.Survivor{Name: t.Name, Term: position.Term, Applied: position.Applied})
	}
	best, ok := backup.Best(all)
	if !ok {
		return nil, "", errors.Join(errors.New("no etcd member answers that could be backed up"), failed)
	}
	taken, err := found[best.Name].take(ctx, r, to)
	return taken, best.Name, err
}

// take writes a backup of one member to a stream.
func (s *source) take(ctx context.Context, r Request, to io.Writer) (*Taken, error) {
	manifest, err := s.manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	writer, err := archive.NewWriter(to, r.Recipients)
	if err != nil {
		return nil, err
	}
	restore := begin(ctx, r, manifest.Revision())
	manifest, err = s.write(ctx, r, *manifest, writer, restore.to(writer))
	if err != nil {
		restore.discard()
		return nil, err
	}
	t := &Taken{Manifest: manifest}
	t.Restored, t.Unproven = restore.wait()
	if t.Unproven == nil && t.Restored != nil {
		t.Unproven = manifest.Differs(*t.Restored)
	}
	return t, nil
}

// manifest asks the member what the manifest must say before the snapshot.
func (s *source) manifest(ctx context.Context, r Request) (*backup.Manifest, error) {
	p := s.position
	m := &backup.Manifest{
		Version: backup.FormatVersion, Name: r.Name, Cluster: r.Cluster, Taken: r.Now.UTC().Truncate(time.Second), Kubernetes: r.Kubernetes,
		Etcd: backup.Etcd{
			Version: p.Version, Storage: p.Storage, Cluster: etcd.FormatID(p.Cluster), Term: p.Term, Member: etcd.FormatID(p.Member),
			Members: s.members,
		},
		Fingerprints: r.Fingerprints,
	}
	hash, err := s.client.Hash(ctx, s.target, 0)
	if err != nil {
		return nil, err
	}
	witness(m, hash)
	m.Keys, err = s.client.Count(ctx, s.target, m.Revision())
	return m, err
}

// witness adds the member's hash at the manifest's revision. The member may be compacted at any time, and hashes can be compared only if
// they were computed after the same compaction. So it is asked before and after the snapshot.
func witness(m *backup.Manifest, h etcd.Hash) {
	w := backup.Witness{Revision: h.Revision, CompactRevision: h.CompactRevision, Hash: h.Value}
	if !slices.Contains(m.Witnesses, w) {
		m.Witnesses = append(m.Witnesses, w)
	}
}

// write streams the snapshot, then the files, and ends the archive.
func (s *source) write(
	ctx context.Context, r Request, m backup.Manifest, writer *archive.Writer, snapshot io.Writer,
) (*backup.Manifest, error) {
	if err := s.client.Snapshot(ctx, s.target, r.Limits.Most(), snapshot); err != nil {
		return nil, err
	}
	// A member that is compacted past the revision answers no more. Then the first hash is the one to compare with, if any.
	hash, err := s.client.Hash(ctx, s.target, m.Revision())
	if err == nil {
		witness(&m, hash)
	} else if ctx.Err() != nil {
		return nil, err
	}
	if len(r.Recipients) > 0 {
		for _, name := range slices.Sorted(maps.Keys(r.Files)) {
			if err := writer.Add(name, r.Files[name]); err != nil {
				return nil, err
			}
		}
	}
	return writer.Finish(m)
}

// proof is a restore that goes on beside the upload, or why there is none.
type proof struct {
	scratch *scratch.Scratch
	err     error
}

// begin starts a restore. A backup without a proof is better than none: what is wrong is said when it has been written.
func begin(ctx context.Context, r Request, revision int64) proof {
	if r.Scratch == "" {
		return proof{err: errors.New("it was not restored: there is no scratch folder")}
	}
	s, err := scratch.Start(ctx, r.Scratch, revision, r.Limits)
	return proof{s, err}
}

func (p proof) to(w io.Writer) io.Writer {
	if p.scratch == nil {
		return w
	}
	return io.MultiWriter(w, p.scratch)
}

func (p proof) discard() {
	if p.scratch != nil {
		p.scratch.Discard()
	}
}

func (p proof) wait() (*backup.Restored, error) {
	if p.scratch == nil {
		return nil, p.err
	}
	return p.scratch.Wait()
}
