package etcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// EnableDowngrade lets etcd lower the version of the cluster and of its data to a minor version, such as 3.5, that is one before
// its own. It does so when all members answer one another, some seconds later. Until the downgrade is cancelled no member can join.
// It is no error when the same downgrade is enabled already. What etcd does not accept is refused at once.
func (c *Cluster) EnableDowngrade(ctx context.Context, targets []Target, to string) error {
	err := c.downgrade(ctx, targets, func(a answer, order func(pb.DowngradeRequest_DowngradeAction) error) error {
		if info := a.status.GetDowngradeInfo(); info.GetEnabled() && info.GetTargetVersion() == to+".0" {
			return nil
		}
		if err := order(pb.DowngradeRequest_VALIDATE); err != nil {
			return err
		}
		return order(pb.DowngradeRequest_ENABLE)
	}, to)
	if err != nil {
		return fmt.Errorf("enabling the downgrade of etcd to %s: %w", to, err)
	}
	return nil
}

// CancelDowngrade ends what EnableDowngrade allowed: members can join again. The cluster has its version again some seconds later, unless
// a member of the older version is in the list, or one that does not answer. It is no error when none is enabled.
func (c *Cluster) CancelDowngrade(ctx context.Context, targets []Target) error {
	err := c.downgrade(ctx, targets, func(a answer, order func(pb.DowngradeRequest_DowngradeAction) error) error {
		if err := order(pb.DowngradeRequest_CANCEL); err != nil {
			return err
		}
		// etcd answers that it is done although it failed.
		if now := c.askOne(ctx, a.target); now.err != nil || now.status.GetDowngradeInfo().GetEnabled() {
			return errors.Join(errors.New("it is still enabled"), now.err)
		}
		return nil
	}, "")
	if err != nil {
		return fmt.Errorf("cancelling the downgrade of etcd: %w", err)
	}
	return nil
}

// downgrade has one of the voters that follow a leader, that one first, carry out orders, and again until it is done.
func (c *Cluster) downgrade(
	ctx context.Context, targets []Target, command func(answer, func(pb.DowngradeRequest_DowngradeAction) error) error, to string,
) error {
	return again(ctx, func(ctx context.Context) error {
		answers := c.ask(ctx, targets)
		err := errors.New("no member that knows of downgrades follows a leader: " + conclude(answers).Why)
		for _, a := range able(answers, 0) {
			if !a.tellsDowngrade() {
				continue // whether it did what it was told could not be seen
			}
			err = command(a, func(action pb.DowngradeRequest_DowngradeAction) error {
				return c.order(ctx, a.target, func(ctx context.Context, conn *grpc.ClientConn) error {
					_, err := pb.NewMaintenanceClient(conn).Downgrade(ctx, &pb.DowngradeRequest{Action: action, Version: to})
					return err
				})
			})
			if err == nil || refusedForGood(err) {
				return err
			}
		}
		return err
	})
}

// downgrade is the version to which a downgrade is enabled, as the most recent of those members of the chosen list's cluster knows that
// follow a leader and report it. Empty: none is, or none reports it, as none of 3.5 does.
func downgrade(chosen *ballot, answers []answer) string {
	var newest *pb.StatusResponse
	for _, a := range answers {
		if a.tellsDowngrade() && a.cluster() == chosen.cluster && a.follows() && a.status.GetRaftAppliedIndex() >= newest.GetRaftAppliedIndex() {
			newest = a.status
		}
	}
	if !newest.GetDowngradeInfo().GetEnabled() {
		return ""
	}
	return newest.GetDowngradeInfo().GetTargetVersion()
}

// tellsDowngrade reports whether the member says if a downgrade is enabled.
func (a answer) tellsDowngrade() bool { return a.status.GetDowngradeInfo() != nil }
