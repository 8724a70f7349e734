package command

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers is an API server that knows ConfigMaps, and has each that is asked for.
func answers(t testing.TB) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":"c"}}`
		switch r.URL.Path {
		case "/api":
			text = `{"kind":"APIVersions","versions":["v1"]}`
		case "/apis":
			text = `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
		case "/api/v1":
			text = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap",` +
				`"verbs":["get"]}]}`
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestClientWaitsForNobody: requests to a management plane are not held back here. Five a second, client-go's default, would refuse these
// at once, because they could not be made in time.
func TestClientWaitsForNobody(t *testing.T) {
	c, err := clientOf(&rest.Config{Host: answers(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for n := range 200 {
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "c"}, &corev1.ConfigMap{}); err != nil {
			t.Fatalf("after %d requests: %v", n, err)
		}
	}
}

// BenchmarkRequests measures as many requests as a look at a control plane of seven machines makes.
func BenchmarkRequests(b *testing.B) {
	c, err := clientOf(&rest.Config{Host: answers(b).URL})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for range 31 {
			if err := c.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: "c"}, &corev1.ConfigMap{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestIsOwnManagement: a kubeconfig, a context or kubectl name somebody else's management cluster.
func TestIsOwnManagement(t *testing.T) {
	for name, test := range map[string]struct {
		kubeconfig, context, kubectl string
		want                         bool
	}{
		"none": {want: true}, "a kubeconfig": {kubeconfig: "a"}, "a context": {context: "a"}, "kubectl": {kubectl: "1"},
	} {
		a := &Invocation{Environment: func(string) string { return test.kubectl }}
		a.Kubeconfig, a.Context = test.kubeconfig, test.context
		if got := a.IsOwnManagement(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
