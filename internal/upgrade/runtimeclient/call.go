package runtimeclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// largestResponse is how many bytes of a response are read: more than any has that is meant well.
	largestResponse = 20 << 20
)

// unreachable is why there is no response of an extension. The failurePolicy of the handler is about these errors only.
type unreachable struct{ err error }

func (u *unreachable) Error() string { return u.err.Error() }
func (u *unreachable) Unwrap() error { return u.err }

func isUnreachable(err error) bool {
	var u *unreachable
	return errors.As(err, &u)
}

// newHTTPClient returns a client that trusts the extension's authority alone.
func newHTTPClient(config runtimev1.ClientConfig) (*http.Client, error) {
	server, err := address(config, runtimecatalog.GroupVersionHook{}, "", 0)
	if err != nil {
		return nil, err
	}
	if err := pki.Bounded(config.CABundle); err != nil {
		return nil, fmt.Errorf("reading the caBundle: it %w", err)
	}
	tls, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: config.CABundle, ServerName: server.Hostname()}})
	if err != nil {
		return nil, fmt.Errorf("reading the caBundle: %w", err)
	}
	return &http.Client{
		Transport: utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls}),
		// A redirect would send the objects of a request to an address that was not registered: it is an answer like any other that is no
		// response.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// address is where a handler is called; with no timeout and no hook the address of the server alone counts.
func address(config runtimev1.ClientConfig, hook runtimecatalog.GroupVersionHook, name string, timeout time.Duration) (*url.URL, error) {
	base := &url.URL{Scheme: "https", Path: config.Service.Path}
	if config.Service.IsDefined() {
		base.Host = config.Service.Name + "." + config.Service.Namespace + ".svc"
		if config.Service.Port != nil {
			base.Host = net.JoinHostPort(base.Host, strconv.Itoa(int(*config.Service.Port)))
		}
	} else {
		var err error
		if base, err = url.Parse(config.URL); err != nil {
			return nil, fmt.Errorf("reading the url of the clientConfig: %w", err)
		}
		if base.Scheme != "https" || base.Host == "" {
			return nil, fmt.Errorf("the clientConfig names neither a service nor a url that begins with https://: %q", config.URL)
		}
	}
	full := base.JoinPath(runtimecatalog.GVHToPath(hook, name))
	if timeout > 0 {
		full.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	}
	return full, nil
}

// call sends a request to a handler and reads its response. Hooks have one version each: a handler of another one than the catalog's
// is not accepted at discovery, so nothing is converted.
func (c *Client) call(ctx context.Context, t target, request, response runtime.Object) error {
	name := strings.TrimSuffix(t.handler.name, "."+t.extension.name)
	to, err := address(t.config, t.hook, name, t.timeout)
	if err != nil {
		return err
	}
	kind, err := c.catalog.Request(t.hook)
	if err != nil {
		return fmt.Errorf("looking up the kind of the request: %w", err)
	}
	request = request.DeepCopyObject()
	request.GetObjectKind().SetGroupVersionKind(kind)
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	post.Header.Set("Content-Type", "application/json")
	return send(t.http, post, response)
}

// send sends a request and decodes the response.
func send(c *http.Client, post *http.Request, response runtime.Object) error {
	answer, err := c.Do(post)
	if err != nil {
		return &unreachable{err}
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestResponse+1))
	switch {
	case err != nil:
		return &unreachable{fmt.Errorf("reading the response: %w", err)}
	case answer.StatusCode != http.StatusOK:
		answer.Body = io.NopCloser(bytes.NewReader(body))
		return &unreachable{untrusted.Refusal(answer)}
	case len(body) > largestResponse:
		return &unreachable{fmt.Errorf("its response has more than %d bytes", largestResponse)}
	}
	if err := json.Unmarshal(body, response); err != nil {
		return &unreachable{fmt.Errorf("decoding the response: %w", err)}
	}
	return nil
}
