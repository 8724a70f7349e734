package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

const (
	// retryTimeout is how long a change is tried where the context does not end earlier. A leader's
	// election takes 1 to 2 s, so that this outlasts several.
	retryTimeout = 10 * time.Second
	// retryInterval is the pause between two tries.
	retryInterval = 200 * time.Millisecond
)

// MoveLeader makes the member with the ID to the leader. The order goes to the current leader,
// for 2 s, and again until it is done, ctx ends or 10 s are over. It is no error when the
// member leads already. A member that is a learner or not in the list is refused at once.
func (c *Cluster) MoveLeader(ctx context.Context, targets []Target, to uint64) error {
	err := again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		leader, found := leading(answers)
		if !found {
			return fmt.Errorf("the leader cannot be reached: %s", conclude(answers).Why)
		}
		return c.order(ctx, leader.target, func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("moving the lead of etcd to member %s: %w", FormatID(to), err)
	}
	return nil
}

// RemoveMember removes the member with the ID. The order goes to one member after the other, the
// leader first and the one that is to go last, 2 s each. It is repeated until it is done, ctx ends or 10 s are
// over. It is no error when there is no such member. Alarms that the member raised are disarmed.
func (c *Cluster) RemoveMember(ctx context.Context, targets []Target, id uint64) error {
	err := again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		err := errors.New("no member follows a leader: " + conclude(answers).Why)
		for _, a := range able(answers, id) {
			err = c.order(ctx, a.target, func(ctx context.Context, conn *grpc.ClientConn) error {
				_, err := pb.NewClusterClient(conn).MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
				return err
			})
			if errors.Is(err, rpctypes.ErrMemberNotFound) {
				err = nil
			}
			if err == nil && a.id() != id {
				err = c.disarm(ctx, a.target, id, raised(answers, id))
			}
			if err == nil {
				return nil
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing etcd member %s: %w", FormatID(id), err)
	}
	return nil
}

// Promote lets the learner with the ID vote. The order goes to the leader, for 2 s, and again until it is done, ctx ends or 10 s are
// over. It is no error when it votes already. One that is not in the list, or has too little of the log, is refused at once.
func (c *Cluster) Promote(ctx context.Context, targets []Target, id uint64) error {
	err := again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		leader, found := leading(answers)
		if !found {
			return fmt.Errorf("the leader cannot be reached: %s", conclude(answers).Why)
		}
		err := c.order(ctx, leader.target, func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := pb.NewClusterClient(conn).MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
			return err
		})
		if errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("promoting etcd member %s: %w", FormatID(id), err)
	}
	return nil
}

// refusedForGood are etcd's answers that another try would only bring again.
func refusedForGood(err error) bool {
	return errors.Is(err, rpctypes.ErrBadLeaderTransferee) || errors.Is(err, rpctypes.ErrMemberNotFound) ||
		errors.Is(err, rpctypes.ErrMemberLearnerNotReady) ||
		errors.Is(err, rpctypes.ErrTooManyLearners) ||
		errors.Is(err, rpctypes.ErrInvalidDowngradeTargetVersion) || errors.Is(err, rpctypes.ErrDowngradeInProcess)
}

// order gives one command to one member, once.
func (c *Cluster) order(ctx context.Context, t Target, command func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := rpctypes.Error(c.try(ctx, t, command))
	if err == nil || isEtcds(err) {
		return err
	}
	return shownError{err}
}

// again repeats one try until it succeeds, is refused for good, or time is up. The
// last error tells most, but for that of a try that time has cut short.
func again(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	var told error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if refusedForGood(err) {
			return err
		}
		if told == nil || ctx.Err() == nil {
			told = err
		}
		select {
		case <-ctx.Done():
			return told
		case <-time.After(retryInterval):
		}
	}
}

// leading is the answer of the leader itself.
func leading(answers []answer) (answer, bool) {
	var found answer
	for _, a := range answers {
		if a.status != nil && a.follows() && a.status.Leader == a.id() && a.status.RaftTerm >= found.status.GetRaftTerm() {
			found = a
		}
	}
	return found, found.status != nil
}

// able are the voters that can carry out a removal: those who follow a leader, itself first, the one that is removed last.
func able(answers []answer, removed uint64) []answer {
	var out []answer
	for _, a := range answers {
		if a.status != nil && a.follows() && !a.status.IsLearner {
			out = append(out, a)
		}
	}
	rank := func(a answer) int {
		switch a.id() {
		case removed:
			return 2
		case a.status.Leader:
			return 0
		default:
			return 1
		}
	}
	slices.SortStableFunc(out, func(x, y answer) int { return rank(x) - rank(y) })
	return out
}
