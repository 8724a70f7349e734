package dashboard

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/local/sandbox"
)

const (
	// freshFor is for how long what was read is shown to all pages that ask, so that ten pages cost as much as one.
	freshFor = 800 * time.Millisecond
	// lookTimeout limits the look at one cluster. It is longer than the limits for its API server and its etcd together.
	lookTimeout = 20 * time.Second
	// atOnce is how many clusters are looked at at the same time for the page of all.
	atOnce = 16
	// eachAfter is after how long the page of all looks at a cluster again, for each cluster that there is, but at least leastAfter.
	eachAfter  = 100 * time.Millisecond
	leastAfter = 5 * time.Second
)

// looks reads what the pages show, with the rights of one user. It keeps what was read only as long as a page may ask for it.
type looks struct {
	// ctx ends what was begun for pages that are not waited for.
	ctx    context.Context
	client client.Client
	// host has the machines of this host; nil: the machines are elsewhere.
	host *sandbox.Host
	// settle changes plans as the command does, by what it knows of the management plane.
	settle func([]report.Plan)

	fleet shared[[]*facts.Objects]
	turns chan struct{}

	mu       sync.Mutex
	clusters map[client.ObjectKey]*shared[facts.Seen]
}

func newLooks(ctx context.Context, c client.Client, host *sandbox.Host, settle func([]report.Plan)) *looks {
	return &looks{
		ctx: ctx, client: c, host: host, settle: settle, turns: make(chan struct{}, atOnce),
		clusters: map[client.ObjectKey]*shared[facts.Seen]{},
	}
}

// look returns what is kept of a cluster.
func (l *looks) look(key client.ObjectKey) *shared[facts.Seen] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clusters[key] == nil {
		l.clusters[key] = &shared[facts.Seen]{}
	}
	return l.clusters[key]
}

// forget drops what is kept of clusters that are gone.
func (l *looks) forget(there map[client.ObjectKey]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.clusters {
		if !there[key] {
			delete(l.clusters, key)
		}
	}
}

// see looks at one cluster, as `quorate status` does.
func (l *looks) see(key client.ObjectKey) func(context.Context) (facts.Seen, error) {
	return func(ctx context.Context) (facts.Seen, error) {
		seen, err := facts.See(ctx, l.client, l.host, key)
		if err != nil {
			return facts.Seen{}, err
		}
		return facts.WithObserved(ctx, l.client, seen), nil
	}
}

// Fleet returns all clusters: what the management plane says now, with what was last seen of each itself. Clusters of which that is old
// are looked at meanwhile.
func (l *looks) Fleet(ctx context.Context) ([]pages.Row, error) {
	all, _, err := l.fleet.get(ctx, l.ctx, freshFor, func(ctx context.Context) ([]*facts.Objects, error) {
		return facts.ReadAll(ctx, l.client)
	})
	if err != nil {
		return nil, err
	}
	there, rows := map[client.ObjectKey]bool{}, make([]pages.Row, 0, len(all))
	after := max(leastAfter, time.Duration(len(all))*eachAfter)
	for _, o := range all {
		key := client.ObjectKeyFromObject(o.Cluster)
		there[key] = true
		rows = append(rows, l.row(key, o, after))
	}
	l.forget(there)
	return rows, nil
}

// row is one cluster among all.
func (l *looks) row(key client.ObjectKey, o *facts.Objects, after time.Duration) pages.Row {
	look := l.look(key)
	seen, at, err := look.last()
	if look.due(after) {
		select {
		case l.turns <- struct{}{}:
			go func() {
				defer func() { <-l.turns }()
				_, _, _ = look.get(l.ctx, l.ctx, after, l.see(key)) // what fails stands in the next row
			}()
		default: // others come first; the page asks again
		}
	}
	row := pages.Row{Looked: at}
	if err != nil {
		row.Failed = err.Error()
	}
	if at.IsZero() {
		row.Cluster = facts.DescribeObjects(o)
		return row
	}
	seen.Objects = o // which is newer
	row.Cluster = facts.Describe(seen)
	return row
}

// Cluster returns one cluster and what was done to it.
func (l *looks) Cluster(ctx context.Context, key client.ObjectKey) (report.Cluster, []report.History, time.Time, error) {
	seen, at, err := l.look(key).get(ctx, l.ctx, freshFor, l.see(key))
	if err != nil {
		return report.Cluster{}, nil, at, err
	}
	past, err := facts.Histories(ctx, l.client, key, seen.Objects)
	if err != nil {
		return report.Cluster{}, nil, at, err
	}
	return facts.Describe(seen), past, at, nil
}

// Explain returns what every rule says, as `quorate explain` does.
func (l *looks) Explain(ctx context.Context, key client.ObjectKey, etcd bool) (report.Explanation, error) {
	return facts.Explain(ctx, l.client, key, etcd)
}

// Planned returns what a change of the control plane's spec would do, as `quorate plan` does. Nothing is written.
func (l *looks) Planned(ctx context.Context, key client.ObjectKey, wanted command.SpecChange) ([]report.Plan, error) {
	from := facts.Snapshot(l.client)
	object, err := facts.ControlPlane(ctx, from, key)
	if err != nil {
		return nil, err
	}
	change := wanted.Of(object, "quorate-dashboard")
	if err := change.Try(ctx, l.client); err != nil {
		return nil, err
	}
	plans, err := facts.Plans(ctx, from, l.client.Scheme(), key, []*unstructured.Unstructured{change.Object})
	l.settle(plans)
	return plans, err
}

// Plans returns what is under way, as `quorate plan` does.
func (l *looks) Plans(ctx context.Context, key client.ObjectKey) ([]report.Plan, error) {
	plans, err := facts.Plans(ctx, facts.Snapshot(l.client), l.client.Scheme(), key, nil)
	l.settle(plans)
	return plans, err
}

// History returns what was done, as `quorate history` does.
func (l *looks) History(ctx context.Context, key client.ObjectKey, etcd bool) (report.History, error) {
	return facts.History(ctx, l.client, key, etcd)
}

// HasEtcd reports whether the cluster has an EtcdCluster.
func (l *looks) HasEtcd(ctx context.Context, key client.ObjectKey) (bool, error) {
	o, err := facts.Read(ctx, l.client, key)
	if err != nil {
		return false, err
	}
	return len(o.EtcdClusters) > 0, nil
}

// shared is something that is read once for all who ask at about the same time.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	// at is when the value was read; zero: never. tried is when the last attempt ended, and err how.
	at, tried time.Time
	err       error
	flying    chan struct{}
}

// last returns the last value that was read, when, and how the last attempt failed.
func (s *shared[T]) last() (T, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.at, s.err
}

// due reports whether the last attempt is so long ago, and none is under way.
func (s *shared[T]) due(after time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying == nil && time.Since(s.tried) >= after
}

// get returns a value that is not older than fresh, and when it was read. If there is none, it reads one, or waits for who does. life ends
// the reading, and ctx the waiting.
func (s *shared[T]) get(ctx, life context.Context, fresh time.Duration, read func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	if s.flying == nil {
		if !s.tried.IsZero() && time.Since(s.tried) < fresh {
			defer s.mu.Unlock()
			return s.value, s.at, s.err
		}
		s.flying = make(chan struct{})
		go s.fly(life, read)
	}
	flying := s.flying
	s.mu.Unlock()
	select {
	case <-flying:
		return s.last()
	case <-ctx.Done():
		var none T
		return none, time.Time{}, context.Cause(ctx)
	}
}

// fly reads the value.
func (s *shared[T]) fly(life context.Context, read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(life, lookTimeout)
	defer cancel()
	began := time.Now() // what is read may change from now on
	value, err := read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.value, s.at = value, began
	}
	s.tried = time.Now()
	close(s.flying)
	s.flying = nil
}
