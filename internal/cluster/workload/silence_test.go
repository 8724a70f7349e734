package workload

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// refusing is an address at which nothing listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// socks serves one answer to each SOCKS5 request: 4 is "host unreachable", 1 a failure of its own.
func socks(t *testing.T, answer byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greeting := make([]byte, 3)
			_, _ = io.ReadFull(conn, greeting)
			_, _ = conn.Write([]byte{5, 0})
			request := make([]byte, 10)
			_, _ = io.ReadFull(conn, request)
			_, _ = conn.Write([]byte{5, answer, 0, 1, 0, 0, 0, 0, 0, 0})
			_ = conn.Close()
		}
	}()
	return "socks5://" + l.Addr().String()
}

// TestSilence: only where nothing at all answers is the endpoint silent. A refusal, an error and what cannot be understood are answers, and
// a proxy that is down says nothing of the server.
func TestSilence(t *testing.T) {
	s := newServer(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	hangs, tooLate := balance(t, s.URL), balance(t, s.URL)
	hangs.up()
	hangs.hangUp(true)
	tooLate.up()
	tooLate.hush()
	at := func(address string) *rest.Config { return restConfig(t, s.kubeconfig(t, address, "first")) }
	through := func(proxy string) *rest.Config {
		config := at("https://127.0.0.9:6443")
		config.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
		return config
	}
	says := func(code int) *rest.Config {
		p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(p.Close)
		return through(p.URL)
	}
	unknown := at(s.URL)
	unknown.CAData = nil
	notReady := newServer(t)
	notReady.setReady("[-]etcd failed: reason withheld\n")
	tests := map[string]struct {
		config *rest.Config
		silent bool
	}{
		"refuses connections":          {at("https://" + refusing(t)), true},
		"hangs up":                     {at(hangs.url()), true},
		"says nothing":                 {at(tooLate.url()), true},
		"has no name":                  {at("https://no-such-host.invalid:6443"), true},
		"refuses the token":            {restConfig(t, s.kubeconfig(t, s.URL, "wrong")), false},
		"has another certificate":      {unknown, false},
		"speaks without TLS":           {at("https" + plain.URL[len("http"):]), false},
		"is not ready":                 {restConfig(t, notReady.kubeconfig(t, notReady.URL, "first")), false},
		"the proxy reaches nothing":    {says(http.StatusBadGateway), true},
		"the proxy got no answer":      {says(http.StatusGatewayTimeout), true},
		"the proxy refuses":            {says(http.StatusForbidden), false},
		"the proxy is down":            {through("http://" + refusing(t)), false},
		"SOCKS: the host is not there": {through(socks(t, 4)), true},
		"SOCKS: the proxy fails":       {through(socks(t, 1)), false},
		"SOCKS: the proxy is down":     {through("socks5://" + refusing(t)), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			v, err := Once(ctx, test.config)
			if err != nil || v.Reachable || !v.SilentSince.IsZero() != test.silent {
				t.Errorf("silent since %s, %t is expected: %s, %v", v.SilentSince, test.silent, v.Why, err)
			}
		})
	}
}

// TestSilentSince: the silence begins with the first try that finds nothing, goes on with each that follows, and any answer ends it.
func TestSilentSince(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	b := balance(t, s.URL)
	secrets := fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, b.url(), "first"))).Build()
	c := connect(t, secrets, quick)
	silent := func(v View) bool { return !v.Reachable && !v.SilentSince.IsZero() }
	first, _ := await(t, c, 10*time.Second, "silent", silent)
	b.up()
	v, _ := await(t, c, 10*time.Second, "reachable", reachable)
	if !v.SilentSince.IsZero() || !v.FailingSince.IsZero() {
		t.Errorf("reachable, and silent since %s, failing since %s", v.SilentSince, v.FailingSince)
	}
	b.down()
	second, _ := await(t, c, 10*time.Second, "silent again", silent)
	if !second.SilentSince.After(first.SilentSince) {
		t.Errorf("silent since %s, first since %s", second.SilentSince, first.SilentSince)
	}
	s.setReady("[-]etcd failed: reason withheld\n")
	b.up()
	await(t, c, 10*time.Second, "an answer", func(v View) bool {
		return !v.Reachable && v.SilentSince.IsZero() && v.FailingSince.Equal(second.FailingSince)
	})
	b.down()
	await(t, c, 10*time.Second, "silent once more", silent)
	setKubeconfig(t, secrets, []byte("none"))
	await(t, c, 3*time.Minute, "nothing to ask with", func(v View) bool {
		return !v.Reachable && v.SilentSince.IsZero() && v.FailingSince.IsZero()
	})
}
