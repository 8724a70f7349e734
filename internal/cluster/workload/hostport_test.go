package workload

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// TestDialWithoutEtcdPod: where etcd is external, the API server's own pod leads to its Node.
func TestDialWithoutEtcdPod(t *testing.T) {
	f, e := &forwarder{}, newEcho(t)
	serveForwards(t, f)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod := strings.Split(r.URL.Path, "/")[6]
		asked = append(asked, pod)
		if pod != "kube-apiserver-n" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			status := apierrors.NewNotFound(corev1.Resource("pods"), pod).Status()
			status.Kind, status.APIVersion = "Status", "v1"
			_ = json.NewEncoder(w).Encode(status)
			return
		}
		r.URL.Path = strings.Replace(r.URL.Path, pod, "etcd-n", 1)
		f.serve(w, r)
	}))
	t.Cleanup(server.Close)
	conn, err := Dial(&rest.Config{Host: server.URL}, "n", "", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	must(t, conn.Close())

	if _, err := Dial(&rest.Config{Host: server.URL}, "other", "", e.port)(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "kube-apiserver-other") {
		t.Errorf("no pod at all: %v, asked for %v", err, asked)
	}
}
