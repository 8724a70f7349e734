package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// Position is how far one member's data is.
type Position struct {
	// Member and Cluster are IDs of etcd.
	Member, Cluster uint64
	// Revision is the revision of its keys.
	Revision int64
	// Term is the raft term, Index the last entry of its log that is committed, and Applied the last entry that its data contains. 3.5 reports
	// all of them.
	Term, Index, Applied uint64
	// Leader is the ID of the member that it follows; 0: none.
	Leader uint64
	// Learner reports whether it has no vote.
	Learner bool
	// Version and Storage are those of Member, and Size is the size of its data in bytes.
	Version, Storage string
	Size             int64
}

// Hash is the hash of all keys of one member at one revision.
type Hash struct {
	// Revision is the revision up to which keys are hashed, CompactRevision the one at which the member was compacted.
	Revision, CompactRevision int64
	// Value is the hash. Values can be compared only if both revisions are equal.
	Value uint32
}

// Position asks one member how far its data is. It needs no quorum.
func (c *Cluster) Position(ctx context.Context, t Target) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := c.askOne(ctx, t)
	if a.err != nil {
		return Position{}, fmt.Errorf("asking etcd member %s how far it is: %w", t.Name, shownError{a.err})
	}
	s := a.status
	return Position{
		Member: a.id(), Cluster: a.cluster(), Revision: s.GetHeader().GetRevision(), Term: s.RaftTerm, Index: s.RaftIndex,
		Applied: s.RaftAppliedIndex,
		Leader:  s.Leader, Learner: s.IsLearner, Version: s.Version, Storage: s.StorageVersion, Size: s.DbSize,
	}, nil
}

// Hash asks one member for the hash of its keys at a revision; 0: its newest. The member reads all of its data for it. It needs no quorum.
// For the revision of one of its last compactions a member answers with the hash that it computed then, and the compaction before: ask for
// 0 instead.
func (c *Cluster) Hash(ctx context.Context, t Target, revision int64) (Hash, error) {
	var response *pb.HashKVResponse
	err := c.try(ctx, t, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		response, err = pb.NewMaintenanceClient(conn).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
		return err
	})
	if err != nil {
		return Hash{}, fmt.Errorf("asking etcd member %s for its hash at revision %d: %w", t.Name, revision, late(ctx, err))
	}
	// 3.5 does not repeat the revision. Its header has the newest.
	of := cmp.Or(response.HashRevision, revision, response.GetHeader().GetRevision())
	if revision != 0 && of != revision {
		return Hash{}, fmt.Errorf("asking etcd member %s for its hash at revision %d: it answered for revision %d", t.Name, revision, of)
	}
	// A member that was never compacted answers -1.
	return Hash{of, response.CompactRevision, response.Hash}, nil
}

// Count asks one member how many keys it has at a revision. It needs no quorum.
func (c *Cluster) Count(ctx context.Context, t Target, revision int64) (int64, error) {
	var response *pb.RangeResponse
	err := c.try(ctx, t, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		response, err = pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true, Revision: revision,
			Serializable: true})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking etcd member %s for its number of keys at revision %d: %w", t.Name, revision, late(ctx, err))
	}
	return response.Count, nil
}

// Snapshot streams all data of one member, followed by its checksum, to a writer. It needs no quorum. It fails if the member sends more
// than most bytes. After an error nothing that was written may be used.
func (c *Cluster) Snapshot(ctx context.Context, t Target, most int64, to io.Writer) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(err error) error {
		return fmt.Errorf("reading the snapshot of etcd member %s: %w", t.Name, err)
	}
	var stream grpc.ServerStreamingClient[pb.SnapshotResponse]
	// Once bytes have come nothing may be tried again: they are written already. The stream outlives this call.
	err := c.try(ctx, t, func(_ context.Context, conn *grpc.ClientConn) error {
		opened, err := pb.NewMaintenanceClient(conn).Snapshot(inner, &pb.SnapshotRequest{})
		if err != nil {
			return err
		}
		stream = opened
		_, err = opened.Header()
		return err
	})
	if err != nil {
		return fail(late(ctx, err))
	}
	var sent int64
	for remaining := uint64(1); ; {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if remaining != 0 || sent == 0 {
				return fail(fmt.Errorf("it ended %d bytes early", remaining))
			}
			return nil
		}
		if err != nil {
			return fail(late(ctx, err))
		}
		remaining = part.RemainingBytes
		if sent += int64(len(part.Blob)); sent > most {
			return fail(untrusted.Nonsense("it has more than %d bytes", most))
		}
		if _, err := to.Write(part.Blob); err != nil {
			return fail(err)
		}
	}
}

// late returns the caller's own end where that is the reason, or else what the member answered.
func late(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return shownError{err}
}
