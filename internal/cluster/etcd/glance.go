package etcd

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Glance asks one member whether its list, the leader and the alarms are still what a survey found, for as long as patience. false:
// something differs, or the member does not say; a survey tells what. Its connection stays open, and no other is made.
func (c *Cluster) Glance(ctx context.Context, t Target, last Survey) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := c.question(ctx, t)
	return a.err == nil && last.stands(a)
}

// stands reports whether a member says the same as the survey, in which no alarm was active.
func (s Survey) stands(a answer) bool {
	if len(a.status.GetErrors()) > 0 || len(a.list) != len(s.Members) {
		return false
	}
	for _, m := range s.Members {
		same := func(o *pb.Member) bool {
			return o.ID == m.ID && o.IsLearner == m.Learner && slices.Equal(slices.Sorted(slices.Values(o.PeerURLs)), m.PeerURLs)
		}
		if !slices.ContainsFunc(a.list, same) || m.Leader != (a.status.GetLeader() == m.ID) || len(m.Alarms) > 0 {
			return false
		}
	}
	return a.follows()
}
