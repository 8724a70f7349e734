package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// longOrder limits an order that takes long, if the context does not end earlier. A member writes about 100 MB a second. It finishes the
// order after the limit too.
const longOrder = 90 * time.Second

// take gives one member an order that takes its time, once.
func (c *Cluster) take(ctx context.Context, t Target, order func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, longOrder)
	defer cancel()
	return rpctypes.Error(c.try(ctx, t, order))
}

// Compact drops what was overwritten before a revision, by the order of one voter that follows a leader, the leader itself first, and waits
// until that member has dropped it, for 90 s at most. It is no error when etcd was compacted that far before.
func (c *Cluster) Compact(ctx context.Context, targets []Target, revision int64) error {
	answers := c.ask(ctx, targets)
	by := able(answers, 0)
	if len(by) == 0 {
		return fmt.Errorf("compacting etcd: no member follows a leader: %s", conclude(answers).Why)
	}
	err := c.take(ctx, by[0].target, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting etcd to revision %d: %w", revision, shownError{err})
	}
	return nil
}

// Defragment has one member give back the space that its data do not need, for 90 s at most. The member answers nobody meanwhile.
func (c *Cluster) Defragment(ctx context.Context, targets []Target, id uint64) error {
	for _, a := range c.ask(ctx, targets) {
		if a.status == nil || a.id() != id {
			continue
		}
		err := c.take(ctx, a.target, func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := pb.NewMaintenanceClient(conn).Defragment(ctx, &pb.DefragmentRequest{})
			return err
		})
		if err != nil {
			return fmt.Errorf("defragmenting etcd member %s: %w", FormatID(id), shownError{err})
		}
		return nil
	}
	return fmt.Errorf("defragmenting etcd member %s: it does not answer", FormatID(id))
}

// Disarm ends the alarm NOSPACE of all members that raised it. A member that has still no space raises it again with the next write.
func (c *Cluster) Disarm(ctx context.Context, targets []Target) error {
	err := c.byOne(ctx, targets, func(ctx context.Context, conn *grpc.ClientConn) error {
		maintenance := pb.NewMaintenanceClient(conn)
		raised, err := maintenance.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
		for _, alarm := range raised.GetAlarms() {
			_, end := maintenance.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.Alarm, MemberID: alarm.MemberID})
			err = errors.Join(err, end)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ending etcd's alarm NOSPACE: %w", err)
	}
	return nil
}

// byOne has one voter that follows a leader, that one first, carry out an order, and again until it is done.
func (c *Cluster) byOne(ctx context.Context, targets []Target, command func(context.Context, *grpc.ClientConn) error) error {
	return again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		err := errors.New("no member follows a leader: " + conclude(answers).Why)
		for _, a := range able(answers, 0) {
			if err = c.order(ctx, a.target, command); err == nil || refusedForGood(err) {
				return err
			}
		}
		return err
	})
}
