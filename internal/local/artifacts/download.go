package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// What a server may do before it is given up.
const (
	// stallTimeout is how long it may send nothing.
	stallTimeout = time.Minute
	// mostCuts is how often it may cut the connection, and mostVainTries how often in a row without sending anything.
	mostCuts, mostVainTries = 100, 5
	// mostRedirects is how often it may redirect one request.
	mostRedirects = 10
	// defaultMost is how many bytes a bundle has at most.
	defaultMost = 8 << 30
)

var (
	errCut     = errors.New("the connection was cut")
	errStalled = fmt.Errorf("the server has sent nothing for %s", stallTimeout)
	// errPlain is about bundles that anybody on the way could replace.
	errPlain   = errors.New("http:// needs a public key (QUORATE_BUNDLE_KEY) or a checksum (QUORATE_BUNDLE_SHA256); use https:// without")
	errTooMuch = errors.New("the server sends more")
	// errElsewhere is about bundles that are not of the host that the user named.
	errElsewhere = errors.New("another host needs a public key (QUORATE_BUNDLE_KEY) or a checksum (QUORATE_BUNDLE_SHA256)")
)

// final is an error that another try would meet as well.
type final struct{ error }

// Unwrap implements the interface of package errors.
func (f final) Unwrap() error { return f.error }

// download reads a file from a URL. When the connection is cut it goes on where it was.
type download struct {
	client http.Client
	// request asks for all of the file.
	request *http.Request
	// most is how many bytes are read at most.
	most int64
	// begun: the server has answered once. total is how many bytes the file has then; -1: it does not say. version tells it from others of the
	// same URL; empty: nothing does.
	begun   bool
	total   int64
	version string
	// offset is how many bytes were read. body is the rest of the file; nil: not connected.
	offset int64
	body   io.ReadCloser
	// cuts counts connections that were cut, vain those in a row that brought nothing.
	cuts, vain int
	watchdog   *time.Timer
}

// newDownload returns a download of the bundle, which has not asked for anything yet. Cancel is called when the server sends nothing more.
func (b Bundle) newDownload(ctx context.Context, cancel context.CancelCauseFunc) (*download, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.From, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // nothing is decompressed on the way: a few bytes could become any number
	d := &download{request: request, most: b.Most, total: -1, watchdog: time.AfterFunc(stallTimeout, func() { cancel(errStalled) })}
	d.watchdog.Stop()
	if d.most <= 0 {
		d.most = defaultMost
	}
	if b.Client != nil {
		d.client = *b.Client
	}
	d.client.CheckRedirect = b.checkRedirect
	return d, nil
}

// checkRedirect lets a server redirect to itself over https://. It may redirect to others, who could send anything, if it can be told
// whether that is the bundle. They do not learn where the request came from: an address may have credentials.
func (b Bundle) checkRedirect(to *http.Request, via []*http.Request) error {
	to.Header.Del("Referer")
	switch {
	case len(via) >= mostRedirects:
		return fmt.Errorf("it redirects more than %d times", mostRedirects)
	case b.vouched():
	case to.URL.Scheme != "https":
		return fmt.Errorf("it redirects to %s: %w", redacted(to.URL.String()), errPlain)
	case to.URL.Host != via[0].URL.Host:
		return fmt.Errorf("it redirects to %s: %w", redacted(to.URL.String()), errElsewhere)
	}
	if to.URL.Scheme != "https" {
		to.Header.Del("Authorization")
		to.Header.Del("Cookie")
	}
	return nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.readOnce(p)
		if n > 0 || err == nil && len(p) == 0 {
			d.vain = 0
			return n, nil
		}
		if errors.Is(err, io.EOF) || d.request.Context().Err() != nil {
			return 0, err
		}
		if fatal := (final{}); errors.As(err, &fatal) || !d.begun {
			return 0, err
		}
		d.cuts++
		d.vain++
		if d.vain > mostVainTries || d.cuts > mostCuts {
			return 0, fmt.Errorf("the server cut the connection %d times, the last time after %s: %w", d.cuts, cache.Bytes(d.offset), err)
		}
		if err := d.pause(); err != nil {
			return 0, err
		}
	}
}

// pause waits before a try that follows one in vain.
func (d *download) pause() error {
	if d.vain < 2 {
		return nil
	}
	ctx := d.request.Context()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond << d.vain):
		return nil
	}
}

// readOnce reads from the connection, or a new one. Its watchdog runs while it waits for the server, not while the importer does something
// else. An error closes the connection.
func (d *download) readOnce(p []byte) (n int, err error) {
	d.watchdog.Reset(stallTimeout)
	defer d.watchdog.Stop()
	if d.total >= 0 && d.offset >= d.total {
		return 0, io.EOF
	}
	if d.body == nil {
		if err := d.connect(); isEnd(err) {
			return 0, errCut
		} else if err != nil {
			return 0, err
		}
	}
	n, err = d.body.Read(p)
	if d.offset += int64(n); d.offset > d.most {
		return 0, final{fmt.Errorf("%w than %s", errTooMuch, cache.Bytes(d.most))}
	}
	if err == nil {
		return n, nil
	}
	_ = d.body.Close() // only read
	d.body = nil
	switch {
	case errors.Is(err, io.EOF) && (d.total < 0 || d.offset == d.total):
		d.total = d.offset // it ended as it should
		return n, io.EOF
	case isEnd(err):
		return n, errCut
	}
	return n, err
}

// isEnd reports whether a connection ended, which only readOnce takes for the end of the file.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// connect asks for what was not read yet.
func (d *download) connect() error {
	request := d.request.Clone(d.request.Context())
	if d.offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
	}
	response, err := d.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	if err := d.take(response); err != nil {
		return errors.Join(err, response.Body.Close())
	}
	d.begun, d.body = true, response.Body
	return nil
}

// take checks an answer, and skips what was read before.
func (d *download) take(r *http.Response) error {
	from, total, err := d.part(r)
	if err != nil {
		return err
	}
	if total > d.most {
		return final{fmt.Errorf("%w than %s: %s", errTooMuch, cache.Bytes(d.most), cache.Bytes(total))}
	}
	version := versionOf(r)
	if d.begun && (total != d.total && d.total >= 0 && total >= 0 || version != d.version) {
		return final{errors.New("the file was replaced on the server while it was read: try again")}
	}
	d.version = version
	if d.total < 0 {
		d.total = total
	}
	if skipped, err := io.CopyN(io.Discard, r.Body, d.offset-from); err != nil {
		return fmt.Errorf("reading again what was read before, up to byte %d: %w", skipped, err)
	}
	return nil
}

// part returns where in the file an answer begins, and how long the file is; -1: it does not say.
func (d *download) part(r *http.Response) (from, total int64, err error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, 0, final{fmt.Errorf("the server sends Content-Encoding %q: must be the file as it is", encoding)}
	}
	switch r.StatusCode {
	case http.StatusOK:
		return 0, r.ContentLength, nil
	case http.StatusPartialContent:
		said := r.Header.Get("Content-Range")
		if from, total, err = parseRange(said); err != nil || from != d.offset {
			return 0, 0, final{fmt.Errorf("the server sends the part %q of the file: must begin with byte %d", said, d.offset)}
		}
		return from, total, nil
	}
	err = fmt.Errorf("the server answers %d %s", r.StatusCode, http.StatusText(r.StatusCode))
	if r.StatusCode < http.StatusInternalServerError && r.StatusCode != http.StatusTooManyRequests {
		err = final{err}
	}
	return 0, 0, err
}

// versionOf tells a file from others of the same URL.
func versionOf(r *http.Response) string {
	if tag := r.Header.Get("ETag"); tag != "" {
		return tag
	}
	return r.Header.Get("Last-Modified")
}

// parseRange returns where a part of a file begins, and how long the file is; -1: that is not said.
func parseRange(text string) (from, total int64, err error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	part, all, found := strings.Cut(rest, "/")
	begin, _, dash := strings.Cut(part, "-")
	if !ok || !found || !dash {
		return 0, 0, fmt.Errorf("invalid Content-Range %q: must be bytes FROM-TO/ALL", text)
	}
	if from, err = strconv.ParseInt(begin, 10, 64); err != nil {
		return 0, 0, err
	}
	if all == "*" {
		return from, -1, nil
	}
	total, err = strconv.ParseInt(all, 10, 64)
	return from, total, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.watchdog.Stop()
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}

// withoutURL returns what is wrong with a request, without its URL, which may have credentials.
func withoutURL(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}
