package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// TestAskEndpoint: what an endpoint says of its cluster, and that nothing else of its answer counts or is quoted.
func TestAskEndpoint(t *testing.T) {
	asked := ""
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			if code >= 300 && code < 400 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
		}
	}
	const odd = "it does not answer as etcd does"
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    plan.Health
		why     string
	}{
		"healthy": {answer(200, `{"health":"true","reason":""}`), plan.Healthy, ""},
		"older":   {answer(200, `{"health":"true"}`), plan.Healthy, ""},
		"no quorum": {answer(503, `{"health":"false","reason":"RAFT NO LEADER"}`), plan.Unhealthy,
			"it cannot read from its cluster, or an alarm is active"},
		"contradictory": {answer(503, `{"health":"true"}`), plan.Unhealthy, "it cannot read from its cluster, or an alarm is active"},
		"a secret":      {answer(200, "token=hunter2"), plan.Unknown, odd},
		"another word":  {answer(200, `{"health":"maybe"}`), plan.Unknown, odd},
		"a redirect":    {answer(302, ""), plan.Unknown, odd},
		"without end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, plan.Unknown, odd},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(test.handler)
			t.Cleanup(server.Close)
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			got := askEndpoint(t.Context(), &net.Dialer{}, &tls.Config{RootCAs: roots, ServerName: "ignored", MinVersion: tls.VersionTLS12},
				server.URL)
			if got.Health != test.want || got.Why != test.why {
				t.Errorf("%+v, want %v %q", got, test.want, test.why)
			}
			if strings.Contains(asked, "elsewhere") {
				t.Error("a redirect was followed")
			}
			other := askEndpoint(t.Context(), &net.Dialer{}, &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, server.URL)
			if other.Health != plan.Unknown || !strings.Contains(other.Why, "not signed by the authority") {
				t.Errorf("of another authority: %+v", other)
			}
		})
	}
	gone := httptest.NewTLSServer(answer(200, ""))
	gone.Close()
	for endpoint, why := range map[string]string{
		gone.URL: "connection refused", "http://10.0.0.1:2379": "no URL such as", "https://": "no URL such as",
		"https://me:secret@10.0.0.1": "no URL such as", "::": "no URL such as",
	} {
		if got := askEndpoint(t.Context(), &net.Dialer{}, &tls.Config{MinVersion: tls.VersionTLS12}, endpoint); got.Health != plan.Unknown ||
			!strings.Contains(got.Why, why) {
			t.Errorf("%s: %+v, want %q", endpoint, got, why)
		}
	}
}

// TestAskOwnAddress: an endpoint at the manager's own loopback address is not asked, and says why not.
func TestAskOwnAddress(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		_, _ = fmt.Fprint(w, `{"health":"true"}`)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	got := AskEndpoint(t.Context(), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, server.URL)
	if want := (EndpointHealth{plan.Unknown, "it is not asked: its address is " + untrusted.Refused}); got != want || asked {
		t.Errorf("%+v, want %+v; it was asked: %t", got, want, asked)
	}
}

// TestAskEndpointRefused: an endpoint that refuses the client certificate says so by an alert, in TLS 1.2 and in TLS 1.3.
func TestAskEndpointRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		got := askEndpoint(t.Context(), &net.Dialer{}, &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version}, server.URL)
		if got.Health != plan.Unknown || got.Why != "it does not accept the client certificate that was given" {
			t.Errorf("%s: %+v", tls.VersionName(version), got)
		}
	}
}
