// Package workload keeps one connection to each managed cluster. It opens it as soon as the
// cluster's endpoint answers, watches Nodes and the static pods of control planes over
// it, notices when it dies, and opens the next. It also knows the ways
// to a port on a control plane's machine. It does not judge what it sees, writes nothing,
// and knows no object of Cluster API but the secret with the kubeconfig.
package workload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// View is what is known of a managed cluster. What it holds is shared by all who look: it must not be changed.
type View struct {
	// Reachable: the API server answers, says that it is ready, and Nodes and Pods are complete.
	Reachable bool
	// Why says why it is not reachable; empty when it is.
	Why string
	// Since is when Reachable became what it is.
	Since time.Time
	// SilentSince is since when each try found nothing that answers at the endpoint: a refusal or an error of a server is an answer. Zero:
	// something answered the last try, or there was nothing to try with.
	SilentSince time.Time
	// FailingSince is since when no attempt has found the API server ready, whatever it answered; zero as SilentSince is.
	FailingSince time.Time
	// Nodes are those that are labelled as control planes and those that Own names, sorted by name; all Nodes,
	// before a call of Own. Of their metadata names, labels and times are kept, of their specs provider
	// ID and taints, of their status addresses, the condition Ready and the versions. They are the last known ones when the cluster is
	// not reachable.
	Nodes []corev1.Node
	// Pods are the static pods of control planes (in kube-system, labelled tier=control-plane), sorted by
	// name; of their specs only the Node and the containers' names and images. The last known ones when the
	// cluster is not reachable.
	Pods []corev1.Pod
	// Revision grows with every change of the view.
	Revision uint64
}

// Options are the paces of Connections, and their ways. A zero value means the default.
type Options struct {
	// Try is the least time between two tries to connect; 500 ms.
	Try time.Duration
	// Busy and Rest are how often a connection is probed while something is under way and
	// otherwise; 2 s and 30 s. Probes find API servers that are up and not ready.
	Busy, Rest time.Duration
	// Silence is after how long without a word a connection is pinged, at no cost in requests; 15 s. One that breaks is noticed at once, and
	// one that turns silent some seconds after that, or sooner by a probe while something is under way.
	Silence time.Duration
	// Recheck and RecheckAtRest are how often the kubeconfig is read again while it works, and something is under way or nothing is; 5 min
	// and an hour. What begins after a long rest begins with reading it.
	Recheck, RecheckAtRest time.Duration
	// ForwardOnly: ports on machines are reached through the API server alone. Their addresses may be unknown here, or belong to others.
	ForwardOnly bool
	// Bounds are what a cluster may answer.
	Bounds untrusted.Bounds
}

func (o Options) withDefaults() Options {
	for value, otherwise := range map[*time.Duration]time.Duration{
		&o.Try: 500 * time.Millisecond, &o.Busy: 2 * time.Second, &o.Rest: 30 * time.Second, &o.Silence: 15 * time.Second,
		&o.Recheck: 5 * time.Minute, &o.RecheckAtRest: time.Hour,
	} {
		if *value <= 0 {
			*value = otherwise
		}
	}
	o.Bounds = o.Bounds.WithDefaults()
	return o
}

// Connections keeps a connection to every cluster that is wanted. Its methods may be called at the same time.
type Connections struct {
	secrets client.Reader
	options Options
	events  chan event.GenericEvent

	running sync.WaitGroup

	mu   sync.Mutex
	ctx  context.Context // nil before Start
	open map[client.ObjectKey]*connection
	// changed are the clusters whose change has not been told yet; tell is signalled when one is added.
	changed map[client.ObjectKey]bool
	tell    chan struct{}
}

// New returns Connections that read kubeconfigs with the given reader. Nothing is connected before Start.
func New(secrets client.Reader, o Options) *Connections {
	return &Connections{
		secrets: secrets,
		options: o.withDefaults(),
		events:  make(chan event.GenericEvent),
		open:    map[client.ObjectKey]*connection{},
		changed: map[client.ObjectKey]bool{},
		tell:    make(chan struct{}, 1),
	}
}

// Start connects to what is wanted until ctx ends; it is a manager.Runnable. It must be called only once.
func (c *Connections) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	for _, conn := range c.open {
		c.running.Go(conn.start(ctx))
	}
	c.mu.Unlock()
	c.deliver(ctx)
	c.running.Wait()
	return nil
}

// Events yields a Cluster, of which only name and namespace are set, when its view has
// changed. Many changes in a short time may come as one. It is made for source.Channel.
func (c *Connections) Events() <-chan event.GenericEvent { return c.events }

// Want asks for a connection to the cluster. busy says that something is under way
// there, which makes probes more frequent. It may be called as often as one likes.
func (c *Connections) Want(key client.ObjectKey, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.open[key]
	if conn == nil {
		conn = newConnection(key, c)
		c.open[key] = conn
		if c.ctx != nil && c.ctx.Err() == nil {
			c.running.Go(conn.start(c.ctx))
		}
	}
	conn.setBusy(busy)
}

// Own says which Nodes may belong to the cluster's control plane, besides those that are labelled so. Others
// are not in the view any more, and their changes bring no events. The next View takes it into account.
func (c *Connections) Own(key client.ObjectKey, mine Mine) {
	if conn := c.get(key); conn != nil {
		conn.book.nodes.own(mine)
	}
}

// Config returns how the cluster is reached: over the connection that is open, where one is. It is nil before the cluster was connected for
// the first time, and must not be changed.
func (c *Connections) Config(key client.ObjectKey) *rest.Config {
	conn := c.get(key)
	if conn == nil {
		return nil
	}
	return conn.shared()
}

// Forget ends the connection to the cluster, and drops its view.
func (c *Connections) Forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.open[key]; conn != nil {
		conn.stop()
		delete(c.open, key)
		delete(c.changed, key)
	}
}

// View returns what is known of the cluster now. It never waits.
func (c *Connections) View(key client.ObjectKey) View {
	conn := c.get(key)
	if conn == nil {
		return View{Why: "no connection was requested"}
	}
	return conn.book.read()
}

func (c *Connections) get(key client.ObjectKey) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[key]
}

// note remembers that the view of a cluster has changed.
func (c *Connections) note(key client.ObjectKey) {
	c.mu.Lock()
	if c.open[key] != nil {
		c.changed[key] = true
	}
	c.mu.Unlock()
	select {
	case c.tell <- struct{}{}:
	default: // it is signalled already
	}
}

// deliver sends an event for each changed cluster until ctx ends.
func (c *Connections) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.tell:
		}
		for key, more := c.next(); more; key, more = c.next() {
			cluster := &clusterv1.Cluster{}
			cluster.Namespace, cluster.Name = key.Namespace, key.Name
			select {
			case <-ctx.Done():
				return
			case c.events <- event.GenericEvent{Object: cluster}:
			}
		}
	}
}

// next takes one of the changed clusters.
func (c *Connections) next() (client.ObjectKey, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.changed {
		delete(c.changed, key)
		return key, true
	}
	return client.ObjectKey{}, false
}
