package stacked

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/group/observe"
)

// moment is longer than a TLS handshake takes on a host that has much else to do.
const moment = 250 * time.Millisecond

// rounds answers requests in rounds: all that are waiting at once, as soon as no other has come for a moment. So it counts how many wait
// for one another.
type rounds struct {
	mu       sync.Mutex
	waiting  []chan struct{}
	timer    *time.Timer
	counted  int
	requests int
	asked    map[string]int
}

// wait returns when the round is over that a request belongs to.
func (r *rounds) wait(what string) {
	over := make(chan struct{})
	r.mu.Lock()
	r.requests++
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	r.asked[what]++
	r.waiting = append(r.waiting, over)
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = time.AfterFunc(moment, r.end)
	r.mu.Unlock()
	<-over
}

func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return
	}
	r.counted++
	for _, over := range r.waiting {
		close(over)
	}
	r.waiting = nil
}

// through is a client whose requests are answered in rounds.
func (r *rounds) through(w *world) client.WithWatch {
	return interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			r.wait(fmt.Sprintf("%T %s %s", o, o.GetObjectKind().GroupVersionKind().Kind, key))
			return w.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			r.wait(fmt.Sprintf("%T", list))
			return w.List(ctx, list, options...)
		},
	})
}

// managed is the API server of a world's managed cluster, whose answers come in rounds too. Its port-forwards are refused, and counted
// alone.
type managed struct {
	*rounds
	w        *world
	mu       sync.Mutex
	forwards int
}

// serveManaged runs it, and has the cluster's kubeconfig lead there.
func serveManaged(t *testing.T, w *world, r *rounds) *managed {
	m := &managed{rounds: r, w: w}
	s := httptest.NewUnstartedServer(m)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"demo": {Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"demo": {Token: "t"}},
		Contexts:       map[string]*clientcmdapi.Context{"demo": {Cluster: "demo", AuthInfo: "demo"}},
		CurrentContext: "demo",
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig",
		Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "demo"}},
		Data: map[string][]byte{"value": raw}}
	if err := client.IgnoreNotFound(w.client.Delete(t.Context(), secret.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return m
}

// ServeHTTP implements http.Handler.
func (m *managed) ServeHTTP(into http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/portforward") {
		m.mu.Lock()
		m.forwards++
		m.mu.Unlock()
		http.Error(into, "no", http.StatusForbidden)
		return
	}
	m.wait(r.URL.Path)
	var list runtime.Object
	switch r.URL.Path {
	case "/readyz":
		return
	case "/api/v1/nodes":
		list = &corev1.NodeList{Items: m.w.view.Nodes}
	case "/api/v1/namespaces/kube-system/pods":
		list = &corev1.PodList{Items: m.w.view.Pods}
	default:
		http.NotFound(into, r)
		return
	}
	into.Header().Set("Content-Type", "application/json")
	if err := scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion).Encode(list, into); err != nil {
		panic(err)
	}
}

// TestOnceAsksLittle: a look from the command line asks for each thing once, for two objects of each machine, and at the same time for what
// does not wait for one another: a control plane of seven takes no more round trips than one of three. What it would not wait for, the
// certificates of API servers, it does not ask for.
func TestOnceAsksLittle(t *testing.T) {
	for _, n := range []int{3, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w, r := grown(t, n), &rounds{}
			m := serveManaged(t, w, r)
			o, err := observe.Once(t.Context(), r.through(w), New(), kcpKey)
			if err != nil || !o.Cluster.Reachable || len(o.Machines) != n || o.Machines[0].Host == "" {
				t.Fatalf("%+v, %v", o, err)
			}
			for what, times := range r.asked {
				if times > 1 {
					t.Errorf("%s: asked %d times", what, times)
				}
			}
			t.Logf("%d requests in %d rounds, %d port-forwards", r.requests, r.counted, m.forwards)
			if most := 24 + 2*n; r.requests > most {
				t.Errorf("one look at %d machines takes %d requests, at most %d", n, r.requests, most)
			}
			if r.counted > 7 {
				t.Errorf("one look at %d machines takes %d round trips that wait for one another, at most 7", n, r.counted)
			}
			// By websocket and by SPDY.
			if most := 2 * n; m.forwards > most || m.forwards == 0 {
				t.Errorf("%d port-forwards to %d members, at most %d", m.forwards, n, most)
			}
		})
	}
}
