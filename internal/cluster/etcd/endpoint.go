package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// endpointTimeout is how long one endpoint may take to answer whether it is healthy.
	endpointTimeout = 3 * time.Second
	// longestHealth is how many bytes that answer may have.
	longestHealth = 4 << 10
)

// EndpointHealth is what one endpoint of an etcd cluster says of it, whose members are not known.
type EndpointHealth struct {
	// Health is Healthy when the endpoint has read from the cluster with its quorum, Unhealthy when it says that it could not, and
	// Unknown when it was not reached or answers something else.
	Health plan.Health
	// Why says why it is not Healthy. It quotes nothing of the answer.
	Why string
}

// AskEndpoint asks one endpoint, an https URL, for the health of its cluster. The credentials have the roots that sign members'
// certificates and a client certificate; ServerName is ignored. The endpoint may be anything that somebody wrote into a spec: its
// answer is bounded, in time and in bytes, no redirect is followed, and no proxy is used. Addresses at which only the manager's own host
// and network answer are not dialed.
func AskEndpoint(ctx context.Context, credentials *tls.Config, endpoint string) EndpointHealth {
	return askEndpoint(ctx, untrusted.Dialer(), credentials, endpoint)
}

func askEndpoint(ctx context.Context, dialer *net.Dialer, credentials *tls.Config, endpoint string) EndpointHealth {
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.User != nil {
		return EndpointHealth{plan.Unknown, "it is no URL such as https://10.0.0.1:2379"}
	}
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	credentials = credentials.Clone()
	credentials.ServerName = ""
	transport := &http.Transport{
		TLSClientConfig: credentials, DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: untrusted.MostHeader,
	}
	defer transport.CloseIdleConnections()
	at = &url.URL{Scheme: at.Scheme, Host: at.Host, Path: "/health"}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return EndpointHealth{plan.Unknown, "it is no URL such as https://10.0.0.1:2379"}
	}
	response, err := transport.RoundTrip(request) // which follows no redirect
	if err != nil {
		return EndpointHealth{plan.Unknown, endpointFailure(err)}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestHealth))
	if err != nil {
		return EndpointHealth{plan.Unknown, endpointFailure(err)}
	}
	return healthIn(response.StatusCode, body)
}

// healthIn reads the health of an endpoint from its answer.
func healthIn(code int, body []byte) EndpointHealth {
	var answer struct {
		Health string `json:"health"`
	}
	switch {
	case json.Unmarshal(body, &answer) != nil || answer.Health != "true" && answer.Health != "false":
		return EndpointHealth{plan.Unknown, "it does not answer as etcd does"}
	case answer.Health == "false" || code != http.StatusOK:
		return EndpointHealth{plan.Unhealthy, "it cannot read from its cluster, or an alarm is active"}
	}
	return EndpointHealth{Health: plan.Healthy}
}

// remoteError is the operation of an error that is a TLS alert: an endpoint that does not trust the certificate ends the connection so.
const remoteError = "remote error"

// endpointFailure says why an endpoint was not reached, the same words each time.
func endpointFailure(err error) string {
	var network net.Error
	var number syscall.Errno
	var certificate *tls.CertificateVerificationError
	var operation *net.OpError
	var name *net.DNSError
	var own untrusted.AddressError
	switch {
	case errors.As(err, &own):
		return "it is not asked: its address is " + untrusted.Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "no answer in time"
	case errors.As(err, &certificate):
		return "its certificate is not signed by the authority that was given, or is for another name"
	case errors.As(err, &operation) && operation.Op == remoteError:
		return "it does not accept the client certificate that was given"
	case errors.As(err, &name):
		return "its name is not found"
	case errors.As(err, &number):
		return number.Error()
	}
	return "the connection broke"
}
