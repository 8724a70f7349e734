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
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// patience is how long one short request may take.
	patience = 2 * time.Second
	// listTimeout is how long one page of a list may take.
	listTimeout = 10 * time.Second
	// pingTimeout is how long the answer to a ping may take.
	pingTimeout = 3 * time.Second
)

// api speaks with one API server, over connections of its own that end with it.
type api struct {
	readyz string
	http   *http.Client
	// config is for others who ask the server over the same connection.
	config *rest.Config
	core   typedcorev1.CoreV1Interface

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func newAPI(config *rest.Config, silence time.Duration) (*api, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = "quorate"
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the server's address in the kubeconfig: %w", err)
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials in the kubeconfig: %w", err)
	}
	a := &api{readyz: base.JoinPath("/readyz").String()}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	// client-go's own transport would notice a silent connection after 45 s.
	wrapped, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		Proxy:                 proxy,
		DialContext:           a.dial,
		TLSClientConfig:       security,
		TLSHandshakeTimeout:   patience,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout},
		ResponseHeaderTimeout: listTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("reading the credentials in the kubeconfig: %w", err)
	}
	a.http = &http.Client{Transport: wrapped}
	a.config = &rest.Config{Host: config.Host, APIPath: config.APIPath, Transport: wrapped}
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

// ready asks whether the API server is ready. One that does not know the question is no reason to ask it nothing else: the lists that follow tell.
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

// failedChecks are the lines of a readyz answer that begin with [-], in short.
func failedChecks(body, otherwise string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if name, is := strings.CutPrefix(line, "[-]"); is {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " failed")
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return otherwise
	}
	return strings.Join(failed, ", ")
}

// nodes follows all Nodes, not only labelled ones: one that has just registered has no label yet.
func (a *api) nodes(b *book) *feed[*corev1.Node] {
	return &feed[*corev1.Node]{
		shelf: b.nodes,
		read: func(ctx context.Context, o metav1.ListOptions) (page[*corev1.Node], error) {
			list := &corev1.NodeList{}
			if err := a.get("", "nodes", o).Do(ctx).Into(list); err != nil {
				return page[*corev1.Node]{}, fmt.Errorf("listing Nodes: %w", err)
			}
			return page[*corev1.Node]{pointers(list.Items), list.ResourceVersion, list.Continue}, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return a.get("", "nodes", o).Watch(ctx)
		},
	}
}

// pods follows the static pods of control planes.
func (a *api) pods(b *book) *feed[*corev1.Pod] {
	return &feed[*corev1.Pod]{
		selector: "tier=control-plane",
		shelf:    b.pods,
		read: func(ctx context.Context, o metav1.ListOptions) (page[*corev1.Pod], error) {
			list := &corev1.PodList{}
			if err := a.get(metav1.NamespaceSystem, "pods", o).Do(ctx).Into(list); err != nil {
				return page[*corev1.Pod]{}, fmt.Errorf("listing the static pods of control planes: %w", err)
			}
			return page[*corev1.Pod]{pointers(list.Items), list.ResourceVersion, list.Continue}, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return a.get(metav1.NamespaceSystem, "pods", o).Watch(ctx)
		},
	}
}

// get begins a list or watch. It is not repeated when it fails: client-go would
// wait several seconds before it tells, and we have something better to do.
func (a *api) get(namespace, resource string, o metav1.ListOptions) *rest.Request {
	o.Watch = o.TimeoutSeconds != nil
	return a.core.RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		VersionedParams(&o, scheme.ParameterCodec).MaxRetries(0)
}

func pointers[T any](items []T) []*T {
	out := make([]*T, 0, len(items))
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// explain is an error in few words, the same ones each time: without port numbers of our own end.
func explain(err error) string {
	var of *url.Error
	var number syscall.Errno
	var status apierrors.APIStatus
	switch {
	case isTimeout(err):
		return address(err) + "no answer in time"
	case errors.As(err, &number):
		return address(err) + number.Error()
	case errors.As(err, &of):
		return address(err) + of.Err.Error()
	case errors.As(err, &status):
		return statusMessage(status.Status())
	default:
		return err.Error()
	}
}

// statusMessage is what the API server said, or what ended a watch, for which client-go makes a status of its own.
func statusMessage(status metav1.Status) string {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if why, is := strings.CutPrefix(cause.Message, "unable to decode an event from the watch stream: "); is {
				return "a watch broke: " + why
			}
		}
	}
	return status.Message
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

// isCertificateError tells whether one end did not believe the other's certificate.
func isCertificateError(err error) bool {
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &verification) || errors.As(err, &alert) || errors.As(err, &authority)
}
