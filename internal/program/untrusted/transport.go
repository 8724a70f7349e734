package untrusted

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// MostHeader is how many bytes the header of an answer may have; it is for http.Transport.
const MostHeader = 64 << 10

// A RedirectError says that a server redirects to another address. Redirects are never followed: the server's owner would choose whom else
// the manager asks, and reads the answer in conditions.
type RedirectError struct{ code int }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the server answers with a redirect (%d), and redirects are not followed", e.code)
}

// Wrap is for rest.Config.WrapTransport: no redirect is followed, an answer has at most Object bytes and MostParts parts, and of an error
// only what Refusal says is left.
func (b Bounds) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, bounds: b.WithDefaults()}
}

// WrapStreams is like Wrap for one who reads lists and watches object by object, and bounds each. No redirect is followed, all answers
// together have at most what the meter admits, and errors stay as they are.
func (b Bounds) WrapStreams(next http.RoundTripper, m *Meter) http.RoundTripper {
	return &transport{next: next, bounds: b.WithDefaults(), meter: m}
}

// transport bounds what is answered.
type transport struct {
	next   http.RoundTripper
	bounds Bounds
	meter  *Meter // nil: each answer is bounded for itself
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.meter.add(0); err != nil {
		return nil, err
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Status = fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)) // the server's own words may be anything
	response.Header.Del("Warning")                                                                    // client-go logs it
	switch code := response.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		return response, nil
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		_ = response.Body.Close() // nothing of it counts
		return nil, &RedirectError{code}
	case t.meter != nil:
		response.Body = &metered{response.Body, t.meter}
	case code >= 400:
		replace(response)
	default:
		// client-go would decode whatever it knows, asked for or not, and only the parts of JSON are counted.
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		if kind != "" && kind != JSON && !isLog(request, kind) {
			_ = response.Body.Close() // nothing of it counts
			return nil, Nonsense("the server answers something else than JSON: %q", Shown(kind))
		}
		response.Body = &bounded{Reader: Reader(response.Body, t.bounds.Object, t.bounds.ObjectExceeded), Closer: response.Body}
	}
	return response, nil
}

// isLog reports whether an answer is the log of a pod that was asked for: text, which client-go decodes in no way.
func isLog(request *http.Request, kind string) bool {
	return request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/log") && kind == "text/plain"
}

// The media types of objects.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// bounded is the body of an answer that ends with an error where it has too many parts.
type bounded struct {
	io.Reader
	io.Closer
	parts parts
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if !b.parts.count(p[:n]) {
		return 0, PartsExceeded()
	}
	return n, err
}

// parts counts the parts of JSON: all that begins with a brace, a bracket or a comma, outside of strings.
type parts struct {
	seen            int
	quoted, escaped bool
}

// count counts those of the next bytes, and reports whether there are not too many.
func (p *parts) count(data []byte) bool {
	for _, c := range data {
		switch {
		case p.escaped:
			p.escaped = false
		case p.quoted:
			p.escaped, p.quoted = c == '\\', c != '"'
		case c == '"':
			p.quoted = true
		case c == '{' || c == '[' || c == ',':
			p.seen++
		}
	}
	return p.seen <= MostParts
}

// FewParts reports whether an object in JSON has at most MostParts parts.
func FewParts(data []byte) bool { return new(parts).count(data) }

// Meter counts the bytes of one cluster's answers, minute by minute. Its methods may be called at the same time.
type Meter struct {
	bounds Bounds

	mu    sync.Mutex
	since time.Time
	bytes int64
}

// NewMeter returns a Meter that admits what the bounds say.
func NewMeter(b Bounds) *Meter { return &Meter{bounds: b.WithDefaults()} }

// add counts bytes, and returns an error while there are too many in this minute. A nil Meter counts nothing.
func (m *Meter) add(n int) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.since) >= time.Minute {
		m.since, m.bytes = now, 0
	}
	if m.bytes += int64(n); m.bytes > m.bounds.Minute {
		return m.bounds.exceeds(minuteBound, "bytes answered in a minute")
	}
	return nil
}

// metered is the body of an answer that a Meter counts.
type metered struct {
	io.ReadCloser
	meter *Meter
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if over := m.meter.add(n); over != nil {
		return 0, over
	}
	return n, err
}

// Reader returns a reader that fails with what beyond returns when there is more than that many bytes.
func Reader(in io.Reader, most int64, beyond func() error) io.Reader {
	return &limited{in, most, beyond}
}

// limited is what Reader returns.
type limited struct {
	in     io.Reader
	left   int64
	beyond func() error
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, l.beyond()
	}
	return n, err
}
