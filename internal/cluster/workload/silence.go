package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// proxySilence is what a proxy answers when nothing answers it.
type proxySilence struct{ code int }

// Error implements error.
func (e *proxySilence) Error() string {
	return fmt.Sprintf("the proxy reaches no server: %d %s", e.code, http.StatusText(e.code))
}

// connected is for http.Transport: it looks what a proxy says of the way to the server.
func connected(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &proxySilence{answer.StatusCode}
	}
	return nil
}

// socksSilence are the words in which net's SOCKS client says that the proxy reached no server (RFC 1928, section 6).
var socksSilence = []string{"network unreachable", "host unreachable", "connection refused", "TTL expired"}

// Silent asks a cluster once, over a connection of its own, and returns an error unless nothing answers at its endpoint.
func Silent(ctx context.Context, config *rest.Config) error {
	v, err := Once(ctx, config)
	switch {
	case err != nil:
		return err
	case v.Reachable:
		return fmt.Errorf("an API server answers at %s", config.Host)
	case v.SilentSince.IsZero():
		return fmt.Errorf("something answers at %s: %s", config.Host, v.Why)
	}
	return nil
}

// isSilence reports whether nothing answered at the endpoint: no connection came about, or it ended before anything was said. Whatever a
// server says is an answer, also what cannot be understood, and a proxy that does not answer says nothing of the server.
func isSilence(err error) bool {
	var by *proxySilence
	var op *net.OpError
	switch {
	case untrusted.IsMisbehaviour(err), isCertificateError(err):
		return false
	case errors.As(err, &by), isTimeout(err), errors.Is(err, io.EOF):
		return true
	case !errors.As(err, &op), op.Op == "proxyconnect":
		return false
	case strings.HasPrefix(op.Op, "socks"):
		for _, words := range socksSilence {
			if op.Err != nil && op.Err.Error() == "unknown error "+words {
				return true
			}
		}
		return false
	}
	var number syscall.Errno
	var name *net.DNSError
	return errors.As(op, &number) || errors.As(op, &name)
}
