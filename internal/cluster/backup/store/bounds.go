package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

const (
	// mostAnswer is how many bytes a list or an error of the service may have.
	mostAnswer = 4 << 20
	// mostTags is how many tags of XML it may have: a list of 1000 versions has 30,000. A tag of a few bytes takes hundreds in memory.
	mostTags = 64_000
	// mostPages is how many requests a list may take. A page may be empty and yet not be the last one.
	mostPages = 2000
	// versionParameter names a version in a request for an object.
	versionParameter = "versionId"
)

// guarded bounds what the service answers beside objects, and follows no redirect: the service would choose whom else the manager asks.
type guarded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if p, is := request.Context().Value(pagesKey{}).(*pages); is && p.n.Add(1) > mostPages {
		p.end(fmt.Errorf("it has more than %d pages", mostPages))
	}
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	code, query := response.StatusCode, request.URL.Query()
	query.Del(versionParameter)
	if code >= 300 && code < 400 && code != http.StatusNotModified {
		_ = response.Body.Close() // nothing of it counts
		return nil, fmt.Errorf("the service answers with a redirect (%d), and redirects are not followed; check endpoint and region", code)
	}
	if isObject := request.Method == http.MethodGet && len(query) == 0 && code < 300; !isObject {
		response.Body = struct {
			io.Reader
			io.Closer
		}{&elements{from: io.LimitReader(response.Body, mostAnswer)}, response.Body}
	}
	return response, nil
}

// elements is an answer that ends with an error once it has too many tags.
type elements struct {
	from io.Reader
	n    int
}

// Read implements io.Reader.
func (e *elements) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if e.n += bytes.Count(p[:n], []byte("<")); e.n > mostTags {
		return 0, fmt.Errorf("the service's answer has more than %d tags", mostTags)
	}
	return n, err
}

// pages counts the requests of one list.
type pages struct {
	n   atomic.Int64
	end context.CancelCauseFunc
}

// pagesKey is the key of pages in a context.
type pagesKey struct{}

// paged returns a context for one list, which ends once the list takes too many requests. The function ends it too.
func paged(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	return context.WithValue(ctx, pagesKey{}, &pages{end: end}), func() { end(nil) }
}

// cause is why a list ended, where its context did, and else the error.
func cause(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }
