package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
)

// headStart is how long the first way is tried alone.
const headStart = 500 * time.Millisecond

// directStart is how long the address of a machine is tried alone by DialDirect.
const directStart = 25 * time.Millisecond

// leastTime is what an address must have had to answer before its silence tells about the port.
const leastTime = headStart / 5

// way is one way to a port.
type way func(context.Context) (net.Conn, error)

// Dial returns how to open a connection to a port of a control plane's Node. It tries a port-forward
// through the API server, and a direct connection to nodeIP (which may be empty), the
// second half a second later or as soon as the first fails. Where the direct way worked last,
// it is tried first. A port-forward opens even where nothing listens behind it: one
// that brings nothing counts as failed, and the next call begins with the other way. With Options.ForwardOnly there is
// no direct way.
//
// An error reports whether it is about who listens on the port: one of which errors.As finds a method WayFailed() bool that
// returns true is not. The API server or the kubelet did not open or carry on the port-forward, and the address was not
// tried. That the port refused the kubelet, or that the address refused or did not answer, tells about the port. A
// connection has a method Relayed() bool: whether it is a port-forward, on which others may be silent than the port.
func (c *Connections) Dial(key client.ObjectKey, node, nodeIP string, port int) func(context.Context) (net.Conn, error) {
	if c.options.ForwardOnly {
		nodeIP = ""
	}
	return func(ctx context.Context) (net.Conn, error) {
		conn := c.get(key)
		if conn == nil {
			return nil, fmt.Errorf("reaching port %d on Node %s: no connection was requested to cluster %s", port, node, key)
		}
		return conn.ways.dial(ctx, conn.kept(), node, nodeIP, port)
	}
}

// Dial is like Connections.Dial for one who has a config and asks once.
func Dial(config *rest.Config, node, nodeIP string, port int) func(context.Context) (net.Conn, error) {
	var w ways
	return func(ctx context.Context) (net.Conn, error) { return w.dial(ctx, config, node, nodeIP, port) }
}

// DialDirect is like Dial, but begins with the address, and tries the port-forward beside it a moment later: a port-forward takes several
// round trips, and work of the API server and the kubelet. At an address another host may be, where networks overlap: a caller without a
// good answer asks again with Dial.
func DialDirect(config *rest.Config, node, nodeIP string, port int) func(context.Context) (net.Conn, error) {
	w := ways{directFirst: true}
	return func(ctx context.Context) (net.Conn, error) { return w.dial(ctx, config, node, nodeIP, port) }
}

// ConfigOf reads how a cluster is reached from the secret with its kubeconfig, for one who has no connection to it. Clients made from it
// read no more than the default bounds, and follow no redirects.
func ConfigOf(ctx context.Context, secrets client.Reader, key client.ObjectKey) (*rest.Config, error) {
	data, err := capikubeconfig.FromSecret(ctx, secrets, key)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", key.Name, err)
	}
	config, err := kubeconfig.Managed(data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", key.Name, err)
	}
	return config, nil
}

// ways remembers for which Nodes the direct way is the better one. The zero value is ready for use.
type ways struct {
	// directFirst: addresses are always tried first, and alone for a moment only.
	directFirst bool
	tunnels     tunnels

	mu     sync.Mutex
	direct map[string]bool
}

func (w *ways) dial(ctx context.Context, config *rest.Config, node, nodeIP string, port int) (net.Conn, error) {
	var first, second way
	var tried atomic.Bool // the address, and it answered or had its time
	if config != nil {
		first = func(ctx context.Context) (net.Conn, error) {
			conn, err := w.tunnels.forwardToNode(ctx, config, node, port)
			return w.learn(conn, err, node, true)
		}
	}
	if nodeIP != "" {
		second = func(ctx context.Context) (net.Conn, error) {
			tried.Store(hasTime(ctx))
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(nodeIP, strconv.Itoa(port)))
			if err != nil && !timedOut(err) {
				tried.Store(true)
			}
			return w.learn(conn, err, node, false)
		}
	}
	alone := headStart
	if w.directFirst {
		first, second, alone = second, first, directStart
	} else if w.prefersDirect(node) {
		first, second = second, first
	}
	conn, err := race(ctx, first, second, alone)
	if err == nil {
		return conn, nil
	}
	err = fmt.Errorf("reaching port %d on Node %s: %w", port, node, err)
	if !tried.Load() {
		return nil, wayError{err}
	}
	return nil, err
}

// timedOut reports whether an address was silent until the end of the time.
func timedOut(err error) bool {
	late, is := errors.AsType[net.Error](err)
	return is && late.Timeout()
}

// hasTime reports whether an address that is tried now has its time to answer.
func hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) >= leastTime
}

func (w *ways) prefersDirect(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.direct[node]
}

func (w *ways) prefer(node string, direct bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.direct == nil {
		w.direct = map[string]bool{}
	}
	w.direct[node] = direct
}

// learn makes the connection tell whether it brought anything.
func (w *ways) learn(conn net.Conn, err error, node string, forwarded bool) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &witness{Conn: conn, forwarded: forwarded, verdict: func(good bool) { w.prefer(node, good != forwarded) }}, nil
}

// witness is a connection that says once whether it brought anything: with its first byte, or when it ends without.
type witness struct {
	net.Conn
	forwarded bool
	said      atomic.Bool
	verdict   func(good bool)
}

// Relayed reports whether the connection goes through the API server and the kubelet.
func (w *witness) Relayed() bool { return w.forwarded }

// Read implements net.Conn.
func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 || err != nil {
		w.say(n > 0)
	}
	return n, err
}

func (w *witness) say(good bool) {
	if !w.said.Swap(true) {
		w.verdict(good)
	}
}

// attempt is what came of trying one way.
type attempt struct {
	conn net.Conn
	err  error
}

// begin tries a way in the background; a nil way never comes to anything.
func begin(ctx context.Context, w way) <-chan attempt {
	if w == nil {
		return nil
	}
	result := make(chan attempt, 1)
	go func() {
		conn, err := w(ctx)
		result <- attempt{conn, err}
	}()
	return result
}

// abandon closes what an attempt still brings.
func abandon(running <-chan attempt) {
	if running == nil {
		return
	}
	go func() {
		if a := <-running; a.conn != nil {
			_ = a.conn.Close() // nothing was sent on it
		}
	}()
}

// race opens a connection by the first way, and by the second when the first fails or takes
// longer than alone; nil ways are left out. The slower connection is closed.
func race(ctx context.Context, first, second way, alone time.Duration) (net.Conn, error) {
	if first == nil {
		first, second = second, nil
	}
	if first == nil {
		return nil, errors.New("there is no way: no API server to forward the port, and no address of the machine")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead, behind := begin(ctx, first), (<-chan attempt)(nil)
	defer func() { abandon(ahead); abandon(behind) }()
	late := time.NewTimer(alone)
	defer late.Stop()
	var failures error
	for ahead != nil || behind != nil {
		var done attempt
		select {
		case <-ctx.Done():
			return nil, also(failures, ctx.Err())
		case <-late.C:
			if second != nil {
				behind, second = begin(ctx, second), nil
			}
			continue
		case done = <-ahead:
			ahead = nil
		case done = <-behind:
			behind = nil
		}
		if done.err == nil {
			return done.conn, nil
		}
		failures = also(failures, done.err)
		if second != nil {
			behind, second = begin(ctx, second), nil
		}
	}
	return nil, failures
}

// also puts errors into one line.
func also(before, err error) error {
	if before == nil {
		return err
	}
	return fmt.Errorf("%w; %w", before, err)
}
