package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// liar is a member of etcd that answers what it likes.
type liar struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	status *pb.StatusResponse
	list   []*pb.Member
	err    error
}

func (l *liar) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return l.status, l.err
}

func (l *liar) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Members: l.list}, nil
}

func (l *liar) MemberRemove(context.Context, *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return nil, status.Error(codes.Internal, "\x1b[2Jno"+strings.Repeat(" way", 1000))
}

// serve answers until the test ends, and returns how the member is reached.
func (l *liar) serve(t *testing.T, ca *etcdtest.Authority) etcd.Target {
	t.Helper()
	return serve(t, ca, "cp-1", l)
}

// serve lets a member answer until the test ends, and returns how it is reached.
func serve(t *testing.T, ca *etcdtest.Authority, name string, m interface {
	pb.ClusterServer
	pb.MaintenanceServer
}) etcd.Target {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	etcdtest.Must(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(ca.Server(name))))
	pb.RegisterClusterServer(s, m)
	pb.RegisterMaintenanceServer(s, m)
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return etcd.Target{Name: name, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}}
}

func member(id uint64, name string) *pb.Member {
	return &pb.Member{ID: id, Name: name, PeerURLs: []string{"https://10.0.0.1:2380"}}
}

// TestNonsense: whatever a member answers, it costs little, and what the survey says of it is fit to be shown.
func TestNonsense(t *testing.T) {
	honest := func() *pb.StatusResponse {
		return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 1}, Version: "3.6.16", Leader: 1, DbSize: 1}
	}
	many := make([]*pb.Member, 1000)
	for i := range many {
		many[i] = &pb.Member{ID: uint64(i + 1), Name: fmt.Sprint("m", i)}
	}
	wide := member(1, "cp-1")
	for i := range 100 {
		wide.PeerURLs = append(wide.PeerURLs, fmt.Sprint("https://10.0.0.1:", i))
	}
	for _, test := range []struct {
		name   string
		change func(*liar)
		known  bool
		why    string
	}{
		{"nothing is wrong", func(*liar) {}, true, ""},
		{"1,000 members", func(l *liar) { l.list = many }, false, "its list has 1000 members, at most 50 are read"},
		{"a list of megabytes", func(l *liar) { l.list = []*pb.Member{member(1, strings.Repeat("x", 3<<20))} }, false,
			"it has more than 65536 bytes"},
		{"a status of megabytes", func(l *liar) { l.status.Version = strings.Repeat("x", 3<<20) }, false, "it has more than 65536 bytes"},
		{"a huge name", func(l *liar) { l.list = []*pb.Member{member(1, strings.Repeat("x", 10_000))} }, false,
			"member 1 has a name or an address of 10000 bytes that is none"},
		{"a name that is a screen", func(l *liar) { l.list = []*pb.Member{member(1, "\x1b[2J")} }, false,
			"member 1 has a name or an address of 4 bytes that is none"},
		{"a name of two lines", func(l *liar) { l.list = []*pb.Member{member(1, "a\nb")} }, false, "member 1 has a name"},
		{"an address that is a screen", func(l *liar) { l.list = []*pb.Member{{ID: 1, Name: "cp-1", PeerURLs: []string{"\x07"}}} }, false,
			"member 1 has a name or an address"},
		{"many addresses", func(l *liar) { l.list = []*pb.Member{wide} }, false, "member 1 has more than 16 addresses"},
		{"a member twice", func(l *liar) { l.list = []*pb.Member{member(1, "cp-1"), member(1, "cp-2")} }, false, "its list has member 1 twice"},
		{"a version that is a screen", func(l *liar) { l.status.Version = "\x1b]0;x\x07" }, false, "a version of 6 bytes is no version"},
		{"many errors", func(l *liar) { l.status.Errors = make([]string, 1000) }, false, "it reports 1000 errors"},
		{"an error that is a screen", func(l *liar) { l.status.Errors = []string{"\x1b[31mred\nand\x07 long" + strings.Repeat(" x", 1000)} },
			true, "red and long x x"},
		{"a refusal that is a book", func(l *liar) { l.err = status.Error(codes.Internal, "\x1b[31mno"+strings.Repeat(" way", 2000)) }, false,
			"no way way"},
		{"no header", func(l *liar) { l.status.Header = nil }, true, ""},
		{"no list", func(l *liar) { l.list = nil }, false, "no member returned its list"},
		{"negative numbers", func(l *liar) { l.status.DbSize, l.status.DbSizeQuota = -1, -1 }, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ca := etcdtest.NewAuthority(t)
			l := &liar{status: honest(), list: []*pb.Member{member(1, "cp-1")}}
			test.change(l)
			c := etcd.Open(ca.Client())
			defer c.Close()
			s := c.Survey(t.Context(), []etcd.Target{l.serve(t, ca)})
			if s.Known != test.known || !strings.Contains(s.Why, test.why) || test.why == "" && s.Why != "" ||
				strings.ContainsAny(s.Why, "\x1b\x07\n") || len(s.Why) > 1000 {
				t.Errorf("known %t, want %t; %q, want %q", s.Known, test.known, s.Why, test.why)
			}
		})
	}
}

// TestRefusedOrderIsShown: what a member answers to an order is cut, without control characters.
func TestRefusedOrderIsShown(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	l := &liar{status: &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 1}, Leader: 1},
		list: []*pb.Member{member(1, "cp-1"), member(2, "cp-2")}}
	c := etcd.Open(ca.Client())
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := c.RemoveMember(ctx, []etcd.Target{l.serve(t, ca)}, 2)
	if err == nil || !strings.Contains(err.Error(), "no way way") || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 700 ||
		errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
