package workload

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestForwardOnly: where machines are reached through API servers alone, nothing is sent to their addresses, even after a port-forward
// failed.
func TestForwardOnly(t *testing.T) {
	f, e, direct := &forwarder{}, newEcho(t), newEcho(t)
	s := newServer(t)
	f.behind(t, s)
	o := quick
	o.ForwardOnly = true
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), o)
	await(t, c, 2*time.Second, "reachable", reachable)
	if _, err := c.Dial(demo, "gone", "127.0.0.1", direct.port)(t.Context()); err == nil {
		t.Error("a Node whose port cannot be forwarded was reached directly")
	}
	hollow, err := c.Dial(demo, "n", "127.0.0.1", unusedPort(t))(t.Context())
	must(t, err)
	_, _ = hollow.Read(make([]byte, 1)) // nobody listens: a direct way would be preferred from now on
	before := f.requests.Load()
	conn, err := c.Dial(demo, "n", "127.0.0.1", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	must(t, conn.Close())
	if f.requests.Load() != before+1 || direct.conns.Load() > 0 {
		t.Errorf("%d port-forwards, %d direct connections", f.requests.Load()-before, direct.conns.Load())
	}
}
