package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// patience is how long one try at one member may take. A member that is well answers in
// milliseconds; calls on one that is not can hang for etcd's own limit of 7 s.
const patience = 2 * time.Second

// member is the client of one member. It lives as long as its connection does: the next
// request makes a new one, so that nothing is dialled without a request.
type member struct {
	name string
	conn *grpc.ClientConn
	// dial is the newest way to the member.
	dial atomic.Pointer[func(context.Context) (net.Conn, error)]
	// proven: the member has answered on this connection.
	proven atomic.Bool
	// dialled is the newest connection, or the attempt at it.
	dialled atomic.Pointer[dialling]
}

// member returns the client of the target, new or kept.
func (c *Cluster) member(t Target) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[t.Name]; m != nil {
		m.dial.Store(&t.Dial)
		return m, nil
	}
	if c.tls == nil {
		return nil, errors.New("no credentials for etcd")
	}
	m := &member{name: t.Name}
	m.dial.Store(&t.Dial)
	// etcd's own client would dial once more for every Status, retry by itself and log to stderr.
	conn, err := grpc.NewClient("passthrough:///"+t.Name,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return m.open(ctx) }),
		grpc.WithTransportCredentials(telling{dating{credentials.NewTLS(c.security(t)), func(end time.Time) { c.ends.note(t.Name, end) }}}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: patience}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: patience}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostAnswer)), grpc.WithMaxHeaderListSize(mostHeader),
		// What is asked and answered is short; by default each connection keeps 64 KiB for it.
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
	)
	if err != nil {
		return nil, fmt.Errorf("making a client for etcd member %q: %w", t.Name, err)
	}
	m.conn = conn
	c.members[t.Name] = m
	return m, nil
}

// drop closes the client, so that the next question is asked over a new connection. No lock is held while it closes.
func (c *Cluster) drop(m *member) {
	c.mu.Lock()
	if c.members[m.name] == m {
		delete(c.members, m.name)
	}
	c.mu.Unlock()
	m.close()
}

// keepOnly closes the clients of all who are not targets any more.
func (c *Cluster) keepOnly(targets []Target) {
	wanted := map[string]bool{}
	for _, t := range targets {
		wanted[t.Name] = t.Dial != nil
	}
	c.targets.Store(&wanted)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.members {
		if !wanted[name] {
			go m.close()
			delete(c.members, name)
		}
	}
	for name := range c.silences {
		if !wanted[name] {
			c.forgetSilence(name)
		}
	}
}

// close ends the connection. gRPC says farewell first, for up to five seconds where the other end reads nothing: no lock may be held
// meanwhile. It never fails in a way that anybody could act on.
func (m *member) close() { _ = m.conn.Close() }

// try makes one call, which must be safe to repeat. A connection that was good may have
// died since without notice, which says nothing about the member: then a
// new one is tried at once. Where the way to the member failed, the error is an unreachedError.
func (c *Cluster) try(ctx context.Context, t Target, call func(context.Context, *grpc.ClientConn) error) error {
	begun := time.Now()
	for {
		m, err := c.member(t)
		if err != nil {
			return err
		}
		err = call(ctx, m.conn)
		if !isLost(err) {
			m.proven.Store(true)
			return err
		}
		c.drop(m)
		// The member's own end may say that time is up a moment before ours does.
		if !m.proven.Load() || ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded {
			return m.blame(err, begun)
		}
	}
}

// isLost reports whether the call never got an answer from etcd, good or bad.
func isLost(err error) bool {
	if err == nil || isEtcds(err) {
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	default:
		return false
	}
}

// isEtcds reports whether the error is one that etcd itself answered.
func isEtcds(err error) bool {
	var known rpctypes.EtcdError
	return errors.As(rpctypes.Error(err), &known)
}

// ownPort is our end of a connection in an error: it is another with each try, and tells a reader nothing.
var ownPort = regexp.MustCompile(`\S+:\d+->`)

// plain is an error in few words, without what gRPC wraps around it. The member may have chosen some of them.
func plain(err error) string { return untrusted.Shown(unwrapped(err)) }

func unwrapped(err error) string {
	if large := tooLarge(err); large != nil {
		return large.Error()
	}
	if unreached(err) {
		return strings.ReplaceAll(err.Error(), context.DeadlineExceeded.Error(), "no answer in time")
	}
	if status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", patience)
	}
	if text := refusal(err); text != "" {
		return text
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if _, inner, found := strings.Cut(text, `desc = "transport: `); found {
		text = strings.TrimSuffix(inner, `"`)
	}
	text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "no answer in time")
	text = strings.TrimPrefix(text, "Error while dialing: ")
	text = ownPort.ReplaceAllString(text, "")
	return strings.TrimPrefix(text, "etcdserver: ")
}
