// Package clients are the users of a managed cluster during `make soak`: writers that compare and swap ConfigMaps by resourceVersion,
// readers, list and watch clients and holders of leases. They are plain client-go, and record what they asked and what came back.
// They do not judge.
package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/test/soak/history"
)

// How many clients there are of each kind, and how often each asks.
const (
	writers   = 8
	readers   = 2
	holders   = 3
	pause     = 200 * time.Millisecond
	listEvery = 10 // reads for each list
)

// Objects that are compared and swapped: so many at a time, which others follow after a while, so that the history of each stays short
// enough to be judged.
const (
	slots      = 5
	generation = time.Minute
)

// requestTimeout ends a request without an answer.
const requestTimeout = 5 * time.Second

// The namespaces of what is written. Objects that are only created are apart: no client lists them before the end.
const (
	swapped = "soak"
	created = "soak-created"
)

// generationLabel is the label of objects by which those of one generation are listed, valueKey where the value stands.
const (
	generationLabel = "generation"
	valueKey        = "value"
)

// Load is the clients of one cluster.
type Load struct {
	record *history.Recorder
	config *rest.Config
	// asking ends those that write and read, following those that watch.
	asking, following func()
	askers, followers sync.WaitGroup
	// positions are the revisions up to which watches have followed.
	mu        sync.Mutex
	positions map[string]int64
}

// Start makes the namespaces, and begins to write, read and watch. Stop must be called.
func Start(ctx context.Context, config *rest.Config, record *history.Recorder) (*Load, error) {
	l := &Load{record: record, config: config, positions: map[string]int64{}}
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{swapped, created} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	askCtx, stopAsking := context.WithCancel(ctx)
	followCtx, stopFollowing := context.WithCancel(ctx)
	l.asking, l.following = stopAsking, stopFollowing
	if err := l.begin(askCtx, followCtx); err != nil {
		stopAsking()
		stopFollowing()
		return nil, err
	}
	return l, nil
}

// begin starts all clients, each with connections of its own.
func (l *Load) begin(asking, following context.Context) error {
	start := func(wg *sync.WaitGroup, n int, name string, run func(name string, c kubernetes.Interface)) error {
		for i := range n {
			c, err := l.client()
			if err != nil {
				return err
			}
			wg.Go(func() { run(fmt.Sprintf("%s-%d", name, i+1), c) })
		}
		return nil
	}
	return errors.Join(
		start(&l.askers, writers, "writer", func(name string, c kubernetes.Interface) { l.swap(asking, name, c) }),
		start(&l.askers, readers, "reader", func(name string, c kubernetes.Interface) { l.read(asking, name, c) }),
		start(&l.askers, 1, "creator", func(name string, c kubernetes.Interface) { l.create(asking, name, c) }),
		start(&l.askers, holders, "holder", func(name string, c kubernetes.Interface) { l.hold(asking, name, c) }),
		start(&l.followers, 1, informer, func(name string, c kubernetes.Interface) { l.follow(following, name, c, 0) }),
		start(&l.followers, 1, "watcher", func(name string, c kubernetes.Interface) { l.follow(following, name, c, listAgain) }),
	)
}

// client returns a client with connections of its own.
func (l *Load) client() (kubernetes.Interface, error) {
	own := rest.CopyConfig(l.config)
	own.Dial = (&net.Dialer{Timeout: requestTimeout, KeepAlive: 5 * time.Second}).DialContext // so that no other client shares them
	own.QPS = -1
	own.Timeout = 0 // of watches; requests have their own
	c, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating a client of the cluster: %w", err)
	}
	return c, nil
}

// every calls f until ctx ends, with a pause after each.
func every(ctx context.Context, pause time.Duration, f func(n int)) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		f(n)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// generationNow returns the generation of objects that are written at present.
func (l *Load) generationNow() int64 { return l.record.Now() / int64(generation) }

// casPrefix and newPrefix begin the names of objects that are compared and swapped, and of those that are only created.
const (
	casPrefix = "cas-"
	newPrefix = "new-"
)

// prefix returns how the names of objects of a generation begin.
func prefix(generation int64) string { return fmt.Sprintf("%s%d-", casPrefix, generation) }

// create makes objects that stay, each once.
func (l *Load) create(ctx context.Context, name string, c kubernetes.Interface) {
	every(ctx, pause, func(n int) {
		object := fmt.Sprint(newPrefix, n)
		e := history.Entry{Kind: history.Create, Client: name, Object: object}
		l.asked(&e, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return c.CoreV1().ConfigMaps(created).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}},
				metav1.CreateOptions{})
		})
	})
}

// asked sends one request, and records it. It returns what was answered, or nil.
func (l *Load) asked(e *history.Entry, send func(context.Context) (*corev1.ConfigMap, error)) *corev1.ConfigMap {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	e.Begin = l.record.Now()
	got, err := send(ctx)
	e.End = l.record.Now()
	e.Outcome = outcome(err)
	switch {
	case err == nil:
		e.Value, e.Revision = cmp.Or(got.Data[valueKey], e.Value), revision(got.ResourceVersion)
	case e.Kind == history.Get && apierrors.IsNotFound(err):
		e.Outcome = history.OK // there is none, which is an answer
	default:
		e.Error = err.Error()
	}
	l.record.Write(*e)
	if err != nil {
		return nil
	}
	return got
}

// outcome says what an answer to a write means. An error of which it is not certain that nothing was done is unknown.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return history.Conflict
	case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsInvalid(err),
		apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return history.Refused
	}
	return history.Unknown
}

// revision reads a resourceVersion. 0: it is none.
func revision(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
