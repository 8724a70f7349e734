package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// answer is what came of asking one target.
type answer struct {
	target Target
	// err is why the target did not answer; status is nil then.
	err    error
	status *pb.StatusResponse
	// list is nil for learners, who refuse to give it, and where the question failed.
	list []*pb.Member
}

// id is the one of the member that answered.
func (a answer) id() uint64 { return a.status.GetHeader().GetMemberId() }

// cluster is the ID of the cluster of the member that answered.
func (a answer) cluster() uint64 { return a.status.GetHeader().GetClusterId() }

// follows reports whether the member knows a leader.
func (a answer) follows() bool { return a.status.GetLeader() != 0 }

// Survey asks all targets at the same time, each by itself, and takes about 2 s at most, and
// half a second where those that do not answer did not the last time either.
// Every member tells its own status and its own list, for which it needs no quorum. It closes
// the clients of members that are not among the targets.
func (c *Cluster) Survey(ctx context.Context, targets []Target) Survey {
	c.keepOnly(targets)
	return c.ends.addTo(conclude(c.ask(ctx, targets)))
}

// ask puts the questions of a survey to all targets.
func (c *Cluster) ask(ctx context.Context, targets []Target) []answer {
	answers := make([]answer, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		answers[i].target = t
		if t.Dial == nil {
			continue
		}
		all.Go(func() { answers[i] = c.askOne(ctx, t) })
	}
	all.Wait()
	return answers
}

// question asks one target for its status and its list.
func (c *Cluster) question(ctx context.Context, t Target) answer {
	a := answer{target: t}
	a.err = c.try(ctx, t, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		// Status also tells the alarms. Asking for them by AlarmList would cost an
		// entry in the log of all members each time, and needs quorum.
		a.status, err = pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		return err
	})
	if a.err == nil {
		a.err = checkStatus(a.status)
	}
	if a.err != nil {
		a.status = nil
		return a
	}
	if a.status.IsLearner {
		return a
	}
	// The member's status stands without its list: the others' lists tell whether that matters.
	err := c.try(ctx, t, func(ctx context.Context, conn *grpc.ClientConn) error {
		response, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: false})
		if err == nil {
			a.list = response.Members
		}
		return err
	})
	if err = tooLarge(err); err == nil {
		err = checkList(a.list)
	}
	if err != nil {
		return answer{target: t, err: err}
	}
	a.identify()
	return a
}
