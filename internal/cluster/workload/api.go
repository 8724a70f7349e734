package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/program/plaintext"
	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// patience is how long one short request may take.
	patience = 2 * time.Second
	// listTimeout is how long one page of a list may take.
	listTimeout = 10 * time.Second
	// pingTimeout is how long the answer to a ping may take.
	pingTimeout = 3 * time.Second
	// streamBuffer is how many bytes of one answer may have come and wait to be read.
	streamBuffer = 256 << 10
)

// api speaks with one API server, over connections of its own that end with it.
type api struct {
	readyz string
	http   *http.Client
	// config is for others who ask the server over the same connection.
	config *rest.Config
	core   typedcorev1.CoreV1Interface
	bounds untrusted.Bounds

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// newAPI returns an api whose answers have at most what the bounds and the meter admit.
func newAPI(config *rest.Config, silence time.Duration, bounds untrusted.Bounds, meter *untrusted.Meter) (*api, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "quorate"
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the server's address in the kubeconfig: %w", err)
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials in the kubeconfig: %w", err)
	}
	a := &api{readyz: base.JoinPath("/readyz").String(), bounds: bounds}
	// client-go's own transport would notice a silent connection after 45 s.
	transport := &http.Transport{
		Proxy:                  proxyOf(config),
		DialContext:            a.dial,
		TLSClientConfig:        security,
		TLSHandshakeTimeout:    patience,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout, MaxReceiveBufferPerStream: streamBuffer},
		ResponseHeaderTimeout:  listTimeout,
		MaxResponseHeaderBytes: untrusted.MostHeader,
		OnProxyConnectResponse: connected,
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return bounds.WrapStreams(next, meter) }
	streams, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials in the kubeconfig: %w", err)
	}
	config.WrapTransport = bounds.Wrap
	answers, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials in the kubeconfig: %w", err)
	}
	a.http = &http.Client{Transport: streams}
	a.config = &rest.Config{Host: config.Host, APIPath: config.APIPath, Transport: answers,
		ContentConfig: rest.ContentConfig{ContentType: untrusted.JSON}}
	a.core, err = typedcorev1.NewForConfigAndClient(config, a.http)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return a, nil
}

func (a *api) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		_ = conn.Close() // nothing was sent on it
		return nil, net.ErrClosed
	}
	a.conns = append(a.conns, conn)
	return conn, nil
}

// close ends all connections, also those on which somebody still waits.
func (a *api) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, conn := range a.conns {
		_ = conn.Close() // most are closed already
	}
}

// ready asks whether the API server is ready. One that does not know the question is no reason to ask it nothing else: the lists that
// follow tell.
func (a *api) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.readyz, nil)
	if err != nil {
		return err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusOK, response.StatusCode == http.StatusNotFound:
		return nil
	case response.StatusCode == http.StatusUnauthorized:
		return apierrors.NewUnauthorized("it does not accept the kubeconfig's credentials")
	case response.StatusCode == http.StatusForbidden:
		return apierrors.NewForbidden(corev1.Resource("readyz"), "", errors.New("the kubeconfig's user may not ask"))
	}
	return errors.New("not ready: " + failedChecks(string(body), response.Status))
}

// check is the line of a readyz answer about a check that failed. Whatever else it says may be anything.
var check = regexp.MustCompile(`(?m)^\[-\]([a-zA-Z0-9/._-]{1,100}) failed`)

// failedChecks are the names of the checks that failed by a readyz answer, in short.
func failedChecks(body, otherwise string) string {
	var failed []string
	for _, found := range check.FindAllStringSubmatch(body, -1) {
		failed = append(failed, found[1])
	}
	if len(failed) == 0 {
		return otherwise
	}
	return plaintext.List(failed)
}

// nodes follows all Nodes, not only labelled ones: one that has just registered has no label yet.
func (a *api) nodes(b *book) *feed[*corev1.Node] {
	return &feed[*corev1.Node]{
		source: source[*corev1.Node]{"Node", nodeFields, func() *corev1.Node { return &corev1.Node{} }, a.bounds},
		shelf:  b.nodes,
		ask: func(ctx context.Context, o metav1.ListOptions) (*http.Response, error) {
			return a.ask(ctx, "", "nodes", o)
		},
	}
}

// pods follows the static pods of control planes.
func (a *api) pods(b *book) *feed[*corev1.Pod] {
	return &feed[*corev1.Pod]{
		source:   source[*corev1.Pod]{"Pod", podFields, func() *corev1.Pod { return &corev1.Pod{} }, a.bounds},
		selector: "tier=control-plane",
		shelf:    b.pods,
		ask: func(ctx context.Context, o metav1.ListOptions) (*http.Response, error) {
			return a.ask(ctx, metav1.NamespaceSystem, "pods", o)
		},
	}
}

// ask sends a list or watch. It is not repeated when it fails.
func (a *api) ask(ctx context.Context, namespace, resource string, o metav1.ListOptions) (*http.Response, error) {
	o.Watch = o.TimeoutSeconds != nil
	at := a.core.RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&o,
		scheme.ParameterCodec).URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", untrusted.Protobuf+","+untrusted.JSON)
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		return nil, untrusted.Refusal(response)
	}
	return response, nil
}

// Explain is an error of an API server in few words, fit to be shown, the same ones each time: without port numbers of our own end. The
// server may have chosen some of them: a certificate's names, for example.
func Explain(err error) string {
	var of *url.Error
	var number syscall.Errno
	var status apierrors.APIStatus
	text := err.Error()
	switch {
	case untrusted.IsMisbehaviour(err) && errors.As(err, &of):
		text = of.Err.Error()
	case untrusted.IsMisbehaviour(err):
	case isTimeout(err):
		text = address(err) + "no answer in time"
	case errors.As(err, &number):
		text = address(err) + number.Error()
	case errors.As(err, &of):
		text = address(err) + of.Err.Error()
	case errors.As(err, &status):
		text = status.Status().Message
	}
	return untrusted.Shown(text)
}

// address is the server that the error came from, and a colon; empty where that is not known.
func address(err error) string {
	var of *url.Error
	if !errors.As(err, &of) {
		return ""
	}
	at, parseErr := url.Parse(of.URL)
	if parseErr != nil {
		return ""
	}
	return at.Scheme + "://" + at.Host + ": "
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// isCertificateError reports whether one end did not believe the other's certificate.
func isCertificateError(err error) bool {
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &verification) || errors.As(err, &alert) || errors.As(err, &authority)
}
