//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// recoveryWatch looks, while a control plane is recovered, at the etcd of each machine that there is or was, and at what the endpoint
// serves. What Quorate says of itself has no part in it.
type recoveryWatch struct {
	management  client.Client
	cluster     string
	old         []string
	credentials *tls.Config
	asked       *etcd.Cluster
	endpoint    *rest.Config
	addresses   map[string]string
	stop        func()

	mu     sync.Mutex // guards what follows
	seeded time.Time  // when a machine was there first that is none of the old ones
	// beside are the looks in which members of two clusters of etcd followed a leader.
	beside []string
	// newest is the highest revision that the endpoint served since the recovery ended; 0: it has not ended. backwards are answers of a
	// lower one.
	newest    int64
	answers   int
	backwards []string
}

// watchRecovery begins to look. The old machines are those that will be given up.
func (e *environment) watchRecovery(t *testing.T, name string, old []string) *recoveryWatch {
	t.Helper()
	c := e.management(t)
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	clients := certs.EtcdClients{}
	credentials, err := clients.Config(context.Background(), c, object)
	if err != nil {
		t.Fatal(err)
	}
	_, endpoint := e.workload(t, name)
	w := &recoveryWatch{
		management: c, cluster: name, old: old, credentials: credentials, asked: etcd.Open(credentials),
		endpoint: rest.CopyConfig(endpoint), addresses: map[string]string{},
	}
	w.endpoint.Timeout = 3 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.every(ctx, w.lookAtMembers) })
	running.Go(func() { w.every(ctx, w.lookAtEndpoint) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		w.asked.Close()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *recoveryWatch) every(ctx context.Context, look func(context.Context)) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		look(ctx)
	}
}

// lookAtMembers asks the member on each machine which cluster it is of, and whether it follows a leader.
func (w *recoveryWatch) lookAtMembers(ctx context.Context) {
	var all clusterv1.MachineList
	if w.management.List(ctx, &all, client.InNamespace("default"), machine.Labels(w.cluster)) != nil {
		return
	}
	for i := range all.Items {
		m := &all.Items[i]
		if ip := machine.InternalIP(m); ip != "" {
			w.addresses[m.Name] = ip
		}
		if !slices.Contains(w.old, m.Name) {
			w.note(func() { w.seeded = earliest(w.seeded, time.Now()) })
		}
	}
	led := map[uint64][]string{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for name, ip := range w.addresses {
		asking.Go(func() {
			p, err := w.asked.Position(ctx, etcd.Target{Name: name, Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, "2379"))
			}})
			if err == nil && p.Leader != 0 {
				mu.Lock()
				led[p.Cluster] = append(led[p.Cluster], name)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	if len(led) > 1 {
		var texts []string
		for _, id := range slices.Sorted(maps.Keys(led)) {
			texts = append(texts, fmt.Sprintf("%x on %v", id, slices.Sorted(slices.Values(led[id]))))
		}
		w.note(func() { w.beside = append(w.beside, fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), texts)) })
	}
}

// lookAtEndpoint reads the revision that the endpoint serves, each time over a connection of its own. It cannot become lower unless another
// cluster answers.
func (w *recoveryWatch) lookAtEndpoint(ctx context.Context) {
	served, err := revisionServed(ctx, w.endpoint)
	if err != nil {
		return
	}
	w.note(func() {
		switch {
		case w.newest == 0:
		case served < w.newest:
			w.backwards = append(w.backwards, fmt.Sprintf("%s: revision %d after %d", time.Now().Format(time.TimeOnly), served, w.newest))
		default:
			w.newest, w.answers = served, w.answers+1
		}
	})
}

// revisionServed returns the revision of a cluster's data, as its endpoint serves it over a new connection.
func revisionServed(ctx context.Context, endpoint *rest.Config) (int64, error) {
	fresh := rest.CopyConfig(endpoint)
	fresh.Dial = (&net.Dialer{}).DialContext // not shared with other clients
	transport, err := rest.HTTPClientFor(fresh)
	if err != nil {
		return 0, err
	}
	defer transport.CloseIdleConnections()
	c, err := kubernetes.NewForConfigAndClient(fresh, transport)
	if err != nil {
		return 0, err
	}
	list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}

// ended says that the recovery has ended: from now on the endpoint must not serve anything older than it serves now.
func (w *recoveryWatch) ended(t *testing.T) {
	t.Helper()
	eventually(t, "the endpoint answers", patience, func() string {
		served, err := revisionServed(context.Background(), w.endpoint)
		if err != nil {
			return err.Error()
		}
		w.note(func() { w.newest = served })
		return ""
	})
}

func (w *recoveryWatch) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// firstSeeded returns when the first machine was there that is none of the old ones; zero: none was.
func (w *recoveryWatch) firstSeeded() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seeded
}

func earliest(a, b time.Time) time.Time {
	if !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// between returns a writer with those of w's acknowledged writes that were acknowledged from a moment on, and before another; zero: now.
func (w *writer) between(from, before time.Time) *writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	part := &writer{client: w.client}
	for i, at := range w.times {
		if !at.Before(from) && (before.IsZero() || at.Before(before)) {
			part.acknowledged = append(part.acknowledged, w.acknowledged[i])
		}
	}
	return part
}

// missing counts the acknowledged writes that cannot be read any more, if there are any.
func (w *writer) missing(t *testing.T) int {
	t.Helper()
	if len(w.acknowledged) == 0 {
		return 0
	}
	return w.lost(context.Background(), t)
}

// begin writes in the background until end is called.
func (w *writer) begin(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(end)
	return end
}

// orNone is a list for people.
func orNone(list []string) string { return cmp.Or(fmt.Sprint(list), "none") }
