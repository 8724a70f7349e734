package balancer

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	probeHealthy = 500 * time.Millisecond
	probeOthers  = 200 * time.Millisecond
	probeTimeout = 2 * time.Second
)

// watch asks a member for its health until ctx ends.
func (p *pool) watch(ctx context.Context, m *member) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: probeTimeout}).DialContext,
		// Not verified: see the package comment.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		MaxIdleConns:      1,
		DisableKeepAlives: false,
	}
	client := &http.Client{Transport: transport, Timeout: probeTimeout, CheckRedirect: stay}
	defer transport.CloseIdleConnections()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
		err := ask(ctx, client, cmp.Or(m.Probe, "https://"+m.Address+"/readyz"))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			transport.CloseIdleConnections() // the next probe shows whether a new connection works
		}
		p.observe(m, err)
		timer.Reset(p.interval(m))
	}
}

// stay follows no redirect: a member is asked, and no server to which it points.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ask returns nil when the server says at the URL that it is ready.
func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s for its health: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking for its health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<10))
	if err != nil {
		return fmt.Errorf("asking for its health: %w", err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusUnauthorized:
		// Unauthorized: it is set to refuse anonymous requests, and serves.
		return nil
	default:
		return fmt.Errorf("it answers %s%s", response.Status, failed(string(text)))
	}
}

// failed picks the checks that failed out of a server's answer: of the API, or of etcd.
func failed(answer string) string {
	var checks []string
	for _, line := range strings.Split(answer, "\n") {
		if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ := strings.Cut(rest, " ")
			checks = append(checks, name)
		}
	}
	if len(checks) == 0 {
		return ""
	}
	return ", failing: " + strings.Join(checks, ", ")
}
