package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// How long a kubeconfig is believed before the secret is read again: one whose credentials are refused, one that is missing or cannot be
// used, and one that gives no connection. Each reading that finds nothing new doubles it, up to the longest: what does not come up for
// hours costs a request a minute.
const (
	refusedBelieved = 500 * time.Millisecond
	absentBelieved  = 2 * time.Second
	wrongBelieved   = 5 * time.Second
	longestBelieved = time.Minute
)

// errRenewed ends a session whose kubeconfig was replaced; nothing is wrong with the cluster.
var errRenewed = errors.New("the kubeconfig was replaced")

// connection is that to one cluster. It is a loop over sessions: each begins when the endpoint
// answers, and ends with the first thing that goes wrong.
type connection struct {
	key     client.ObjectKey
	secrets client.Reader
	options Options
	book    *book
	meter   *untrusted.Meter

	busy atomic.Bool
	// wake is signalled when the connection becomes busy.
	wake chan struct{}

	mu     sync.Mutex
	done   bool
	cancel context.CancelFunc
	// config is what the newest session uses; nil before the first.
	config *rest.Config
	// open goes over the connection that is open; nil: none is.
	open *rest.Config
	ways ways

	// The following belong to the loop.
	data   []byte    // the kubeconfig that config was made of
	found  []byte    // what was read last; nil: nothing
	err    error     // why there is no config
	readAt time.Time // when data was read
	// unchanged counts the readings in a row that found nothing new, refused says that credentials were refused, both while no connection came
	// about.
	unchanged int
	refused   bool
	// last is what came of the last session's beginning.
	last outcome
	// misbehaved counts the sessions in a row that ended because the server misbehaved.
	misbehaved int
}

func newConnection(key client.ObjectKey, c *Connections) *connection {
	conn := &connection{key: key, secrets: c.secrets, options: c.options, meter: untrusted.NewMeter(c.options.Bounds),
		wake: make(chan struct{}, 1)}
	conn.book = newBook(c.options.Bounds, func() { c.note(key) })
	return conn
}

// setBusy reports whether something is under way in the cluster.
func (c *connection) setBusy(busy bool) {
	if c.busy.Swap(busy) == busy || !busy {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // it is signalled already
	}
}

// start returns the connection's life, which lasts until ctx ends or stop is called.
func (c *connection) start(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	c.cancel = cancel
	if c.done {
		cancel()
	}
	c.mu.Unlock()
	return func() {
		defer cancel()
		c.run(log.IntoContext(ctx, log.FromContext(ctx).WithName("workload").WithValues("cluster", c.key.String())))
	}
}

func (c *connection) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *connection) run(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		next := time.NewTimer(time.Until(begun.Add(c.pause(err))))
		if !errors.Is(err, errRenewed) && c.book.lose(Explain(err), c.last) {
			log.FromContext(ctx).Info("the cluster is not reachable any more", "why", Explain(err))
		}
		select {
		case <-ctx.Done():
		case <-next.C:
		}
		next.Stop()
	}
}

// longestPause is how long a server that misbehaves is left alone at most: to try it again costs what it likes, up to the bounds.
const longestPause = time.Minute

// pause is how long after the beginning of a session that ended with an error the next one begins.
func (c *connection) pause(err error) time.Duration {
	if !untrusted.IsMisbehaviour(err) {
		c.misbehaved = 0
		return c.options.Try
	}
	const most = 10 // doublings, which exceed the longest
	c.misbehaved++
	return min(max(c.options.Try, refusedBelieved)<<min(c.misbehaved, most), longestPause)
}

// session connects and keeps the book until something is wrong, and says what.
func (c *connection) session(ctx context.Context) error {
	c.last = outcome{}
	config, err := c.credentials(ctx)
	if err != nil {
		return err
	}
	server, err := newAPI(config, c.options.Silence, c.options.Bounds, c.meter)
	if err != nil {
		return err
	}
	defer server.close()
	c.last.made = true
	if err := server.ready(ctx); err != nil {
		c.last.silent = isSilence(err)
		return c.suspect(err)
	}
	nodes, pods := server.nodes(c.book), server.pods(c.book)
	lists, listing := errgroup.WithContext(ctx)
	lists.Go(func() error { return nodes.list(listing) })
	lists.Go(func() error { return pods.list(listing) })
	if err := lists.Wait(); err != nil {
		return c.suspect(err)
	}
	c.unchanged, c.refused = 0, false
	c.share(server.config)
	defer c.share(nil)
	if c.book.reach() {
		log.FromContext(ctx).Info("the cluster is reachable", "endpoint", config.Host)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return nodes.follow(ctx) })
	work.Go(func() error { return pods.follow(ctx) })
	work.Go(func() error { return c.probe(ctx, server) })
	return c.suspect(work.Wait())
}

// suspect makes one of the next sessions read the kubeconfig again, where the error says that it may be wrong.
func (c *connection) suspect(err error) error {
	c.refused = apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || isCertificateError(err)
	return err
}

// probe asks now and then whether the API server is ready, and whether the kubeconfig is still the one in use.
func (c *connection) probe(ctx context.Context, server *api) error {
	last, read := time.Now(), time.Now()
	for {
		pace, recheck := c.options.Rest, c.options.RecheckAtRest
		if c.busy.Load() {
			pace, recheck = c.options.Busy, c.options.Recheck
		}
		timer := time.NewTimer(time.Until(last.Add(pace)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.wake:
			timer.Stop()
			continue
		case <-timer.C:
		}
		if time.Since(read) >= recheck {
			if err := c.recheck(ctx); err != nil {
				return err
			}
			read = time.Now()
		}
		err := server.ready(ctx)
		if isTimeout(err) {
			// One that is only slow gets a second chance.
			err = server.ready(ctx)
		}
		if err != nil {
			return err
		}
		last = time.Now()
	}
}

// recheck ends the session when the kubeconfig was replaced.
func (c *connection) recheck(ctx context.Context) error {
	// Where it cannot be read, or is gone, the one that works goes on working.
	if data, err := capikubeconfig.FromSecret(ctx, c.secrets, c.key); err == nil && !bytes.Equal(data, c.data) {
		c.readAt = time.Time{}
		return errRenewed
	}
	return nil
}

// credentials returns how the cluster is reached. It reads the secret rarely.
func (c *connection) credentials(ctx context.Context) (*rest.Config, error) {
	if time.Since(c.readAt) < c.believed() {
		return c.kept(), c.err
	}
	return c.readSecret(ctx)
}

// believed is how long what was read last is.
func (c *connection) believed() time.Duration {
	first := wrongBelieved
	switch {
	case c.err != nil:
		first = absentBelieved
	case c.refused:
		first = refusedBelieved
	}
	const most = 10 // doublings, which exceed the longest
	return min(first<<min(c.unchanged, most), longestBelieved)
}

// readSecret returns how the cluster is reached by its secret, or still by what is kept when the secret cannot be read.
func (c *connection) readSecret(ctx context.Context) (*rest.Config, error) {
	data, err := capikubeconfig.FromSecret(ctx, c.secrets, c.key)
	c.unchanged++
	if c.readAt.IsZero() || !bytes.Equal(data, c.found) {
		c.found, c.unchanged, c.refused = data, 0, false
	}
	c.readAt = time.Now()
	switch {
	case apierrors.IsNotFound(err):
		c.err = fmt.Errorf("there is no kubeconfig: secret %s/%s does not exist", c.key.Namespace, secret.Name(c.key.Name, secret.Kubeconfig))
		return nil, c.err
	case err != nil && c.err == nil && c.kept() != nil:
		// The management cluster's trouble is not this cluster's.
		return c.kept(), nil
	case err != nil:
		c.err = fmt.Errorf("reading the kubeconfig: %w", err)
		return nil, c.err
	case c.err == nil && bytes.Equal(data, c.data):
		return c.kept(), nil
	}
	return c.renew(data)
}

// renew keeps what a kubeconfig says, in the place of what is kept.
func (c *connection) renew(data []byte) (*rest.Config, error) {
	config, err := kubeconfig.Managed(data)
	if err != nil {
		c.err = fmt.Errorf("reading the kubeconfig in secret %s/%s: %w", c.key.Namespace, secret.Name(c.key.Name, secret.Kubeconfig), err)
		return nil, c.err
	}
	config.WrapTransport = c.options.Bounds.Wrap
	c.data, c.err = data, nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config = config
	return config, nil
}

// kept is the newest config; nil before the first.
func (c *connection) kept() *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config
}

// share lets others ask over the connection that is open; nil: none is any more.
func (c *connection) share(open *rest.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
}

// shared is the way over the connection that is open, or else the newest config; nil before the first.
func (c *connection) shared() *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		return c.open
	}
	return c.config
}
