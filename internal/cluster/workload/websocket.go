package workload

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	gwebsocket "github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// handshakeBytes is how much may come on a connection until it is a websocket: certificates for the most part.
	handshakeBytes = 512 << 10
	// websocketBuffer is as large as client-go's.
	websocketBuffer = 33 << 10
)

// websocket opens one. client-go's own reads a header that has no end, and quotes whatever the server answers.
type websocket struct {
	config *rest.Config
	// conn is there once it is open.
	conn *gwebsocket.Conn
}

// RoundTrip implements http.RoundTripper.
func (w *websocket) RoundTrip(request *http.Request) (*http.Response, error) {
	security, err := rest.TLSConfigFor(w.config)
	if err != nil {
		return nil, err
	}
	var raw *handshake
	dialer := gwebsocket.Dialer{
		Proxy: proxyOf(w.config), TLSClientConfig: security, Subprotocols: []string{tunnelled},
		ReadBufferSize: websocketBuffer, WriteBufferSize: websocketBuffer,
		NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			raw = &handshake{Conn: conn}
			return raw, nil
		},
	}
	at := *request.URL
	at.Scheme = map[string]string{"https": "wss", "http": "ws"}[at.Scheme]
	conn, response, err := dialer.DialContext(request.Context(), at.String(), request.Header)
	switch {
	case errors.Is(err, gwebsocket.ErrBadHandshake) && response != nil:
		return nil, &httpstream.UpgradeFailureError{Cause: untrusted.Refusal(response)}
	case err != nil:
		return nil, err
	case conn.Subprotocol() != tunnelled:
		_ = conn.Close() // nothing was sent on it
		return nil, &httpstream.UpgradeFailureError{Cause: untrusted.Nonsense("the API server opens a websocket for another protocol than %s",
			tunnelled)}
	}
	if raw != nil {
		raw.done.Store(true)
	}
	w.conn = conn
	return response, nil
}

// proxyOf is the proxy through which a cluster is reached.
func proxyOf(config *rest.Config) func(*http.Request) (*url.URL, error) {
	if config.Proxy != nil {
		return config.Proxy
	}
	return http.ProxyFromEnvironment
}

// handshake is a connection on which no more than handshakeBytes come until it is done.
type handshake struct {
	net.Conn
	done atomic.Bool
	read int
}

// Read implements net.Conn.
func (h *handshake) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if h.done.Load() {
		return n, err
	}
	if h.read += n; h.read > handshakeBytes {
		return 0, untrusted.Nonsense("the API server's answer to opening a websocket has more than %d bytes", handshakeBytes)
	}
	return n, err
}
