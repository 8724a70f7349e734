package etcdtest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// Network stands between members, so that they can be cut off from one another while all of them run
// and answer their clients. Each member is reached through a proxy, which knows the sender from
// the header that etcd writes into what it says to other members.
type Network struct {
	tb testing.TB
	mu sync.Mutex
	// away are the IDs of those who are on the other side.
	away map[uint64]bool
	// ids are those of the members behind the proxies, by their names.
	ids   map[string]uint64
	calls map[*call]bool
}

// call is one request that is under way between two members.
type call struct {
	from uint64
	to   string
	end  context.CancelFunc
}

// NewNetwork makes a network that is whole.
func NewNetwork(tb testing.TB) *Network {
	return &Network{tb: tb, away: map[uint64]bool{}, ids: map[string]uint64{}, calls: map[*call]bool{}}
}

// Join puts the network before a member that is not started yet.
func (n *Network) Join(p *Process) {
	n.tb.Helper()
	target, err := url.Parse(p.listen)
	Must(n.tb, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(n.tb, err)
	p.Peer = "http://" + l.Addr().String()
	silent := log.New(io.Discard, "", 0)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval, proxy.ErrorLog = -1, silent
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := &http.Server{ErrorLog: silent, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Who is no member yet says no number: it asks for the list, and is let through.
		from, err := strconv.ParseUint(r.Header.Get("X-Server-From"), 16, 64)
		if err != nil {
			proxy.ServeHTTP(w, r)
			return
		}
		ctx, end := context.WithCancel(r.Context())
		defer end()
		c := &call{from: from, to: p.Name, end: end}
		if !n.begin(c) {
			panic(http.ErrAbortHandler)
		}
		defer n.finish(c)
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})}
	go func() { _ = server.Serve(l) }() // ends when it is closed
	n.tb.Cleanup(func() { _ = server.Close() })
}

// Cut puts these members on another side than all others, who hear nothing of them any more. They must run.
func (n *Network) Cut(all, away Group) {
	n.tb.Helper()
	ids := map[string]uint64{}
	for _, p := range all {
		if !p.Ended() {
			ids[p.Name] = p.ID()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids, n.away = ids, map[uint64]bool{}
	for _, p := range away {
		n.away[ids[p.Name]] = true
	}
	for c := range n.calls {
		if n.parted(c) {
			c.end()
		}
	}
}

// Heal makes the network whole again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = map[uint64]bool{}
}

func (n *Network) parted(c *call) bool { return n.away[c.from] != n.away[n.ids[c.to]] }

func (n *Network) begin(c *call) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.parted(c) {
		return false
	}
	n.calls[c] = true
	return true
}

func (n *Network) finish(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.calls, c)
}
