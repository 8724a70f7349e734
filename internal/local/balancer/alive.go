package balancer

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// pingEvery is how often a backend is asked whether it says anything at all.
	pingEvery = 250 * time.Millisecond
	// silentAfter is how long a backend says nothing, neither to a ping nor on any of its connections, before these are moved, while
	// another answers pings. A host that freezes or is cut off resets no connection, so that clients would wait for it. If it was
	// etcd's leader, etcd elects another in one to two seconds, before which no client could be served.
	silentAfter = time.Second
	// lookSilent is how often it is looked whether one that owes an answer is silent for long enough.
	lookSilent = 50 * time.Millisecond
)

// listenTo pings a member until ctx ends. Any answer will do: watch finds out whether the member is ready, and what is not ready,
// as all members of etcd without a leader, is alive.
func (p *pool) listenTo(ctx context.Context, m *member) {
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: probeTimeout}).DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // see the package comment
		MaxIdleConns:    1,
	}
	client := &http.Client{Transport: transport, Timeout: probeTimeout, CheckRedirect: stay}
	defer transport.CloseIdleConnections()
	pace := time.NewTicker(pingEvery)
	defer pace.Stop()
	for {
		began := time.Now()
		p.pinging(m, began)
		err := ping(ctx, client, pingURL(m.Backend))
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.answered(m, began)
		} else {
			transport.CloseIdleConnections()
		}
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
	}
}

// pingURL is the path of the request: of an API server the check that depends on nothing else and waits in no queue; others say that there
// is no such thing.
func pingURL(b Backend) string {
	u, err := url.Parse(cmp.Or(b.Probe, "https://"+b.Address))
	if err != nil {
		return "https://" + b.Address + "/livez/ping" // Validate lets no other probe in than one that can be parsed
	}
	return u.Scheme + "://" + u.Host + "/livez/ping"
}

// ping returns nil when the server answers, whatever.
func ping(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 8<<10))
	return err
}

// pinging notes that a member is asked, and since when it owes an answer.
func (p *pool) pinging(m *member, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.owes.IsZero() {
		m.owes = began
	}
}

// answered notes that a member has answered what it was asked then.
func (p *pool) answered(m *member, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.owes, m.alive = time.Time{}, began
}

// isOwed reports whether a member owes an answer for longer than one that is well takes.
func (p *pool) isOwed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if m.health != Unhealthy && !m.owes.IsZero() && now.Sub(m.owes) >= pingEvery {
			return true
		}
	}
	return false
}

// isSilent reports whether nothing is heard of a member, while another has answered what it was asked long after this one was. That
// one proves that it is not this process, or the whole host, that is too busy. The pool's mutex is held.
func (p *pool) isSilent(m *member, now time.Time) bool {
	if m.owes.IsZero() || now.Sub(m.owes) < silentAfter {
		return false
	}
	for _, o := range p.members {
		if o != m && !o.removed && o.alive.After(m.owes.Add(silentAfter/2)) {
			return !m.isHeard()
		}
	}
	return false
}

// isHeard reports whether a member has sent something on one of its connections just now.
func (m *member) isHeard() bool {
	for l := range m.links {
		if since, ever := l.heard(); ever && since < silentAfter {
			return true
		}
	}
	return false
}
