package etcd_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// memberList is the list that several members of etcd share. The answer to the first learner that is added is lost.
type memberList struct {
	mu    sync.Mutex
	all   []*pb.Member
	slots int
	adds  int
}

// lossy is one member of those that share a list.
type lossy struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	id   uint64
	list *memberList
}

func (l *lossy) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: l.id}, Leader: 1, RaftTerm: 2, Version: "3.6.0"}, nil
}

func (l *lossy) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: l.id}, Members: slices.Clone(l.list.all)}, nil
}

func (l *lossy) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	learners := 0
	for _, m := range l.list.all {
		if slices.Equal(m.PeerURLs, r.PeerURLs) {
			return nil, rpctypes.ErrGRPCPeerURLExist
		}
		if m.IsLearner {
			learners++
		}
	}
	if learners >= l.list.slots {
		return nil, rpctypes.ErrGRPCTooManyLearners
	}
	l.list.adds++
	added := &pb.Member{ID: uint64(100 + l.list.adds), PeerURLs: r.PeerURLs, IsLearner: true}
	l.list.all = append(l.list.all, added)
	if l.list.adds == 1 {
		return nil, status.Error(codes.Unavailable, "transport is closing")
	}
	return &pb.MemberAddResponse{Member: added}, nil
}

// TestPlaceholderWithLostAnswer: etcd adds a placeholder, and its answer is lost. That is no failure, and no second placeholder is added,
// with one slot or several, whether another member is asked next or the same.
func TestPlaceholderWithLostAnswer(t *testing.T) {
	for name, c := range map[string]struct{ members, slots, before int }{
		"one member":                          {1, 1, 0},
		"two members":                         {2, 1, 0},
		"several slots":                       {1, 3, 0},
		"two members, several slots":          {2, 3, 0},
		"several slots, one of them is taken": {2, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ca := etcdtest.NewAuthority(t)
			list := &memberList{slots: c.slots}
			var targets []etcd.Target
			for i := range c.members {
				id := uint64(i + 1)
				host := []string{"cp-1", "cp-2"}[i]
				list.all = append(list.all, &pb.Member{ID: id, Name: host, PeerURLs: []string{"https://" + host + ":2380"}})
				targets = append(targets, serve(t, ca, host, &lossy{id: id, list: list}))
			}
			if c.before > 0 {
				list.all = append(list.all, &pb.Member{ID: 9, PeerURLs: []string{"https://quorate-placeholder@127.0.0.1:9"}, IsLearner: true})
			}
			client := etcd.Open(ca.Client())
			defer client.Close()
			if err := client.AddPlaceholder(t.Context(), targets); err != nil {
				t.Errorf("adding a placeholder: %v", err)
			}
			if list.adds != 1 {
				t.Errorf("%d placeholders were added, want 1", list.adds)
			}
		})
	}
}
