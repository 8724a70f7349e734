package observe

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// EtcdEndpoints asks endpoints of etcds that run on other machines than the control planes'.
type EtcdEndpoints interface {
	// Ask returns what each endpoint says, in their order. The error is why there are no credentials to ask with.
	Ask(ctx context.Context, cluster *clusterv1.Cluster, endpoints []string) ([]etcd.EndpointHealth, error)
	// Forget drops what is kept of a cluster.
	Forget(key client.ObjectKey)
}

// endpointsAtOnce is how many endpoints of one cluster are asked at the same time.
const endpointsAtOnce = 8

// clusterEndpoints asks with the client certificates in the clusters' secrets.
type clusterEndpoints struct {
	secrets client.Reader
	clients certs.EtcdClients
}

// NewEtcdEndpoints returns the endpoints of all clusters whose secrets a client reads.
func NewEtcdEndpoints(secrets client.Reader) EtcdEndpoints {
	return &clusterEndpoints{secrets: secrets}
}

// Ask implements EtcdEndpoints.
func (e *clusterEndpoints) Ask(ctx context.Context, cluster *clusterv1.Cluster, endpoints []string) ([]etcd.EndpointHealth, error) {
	config, err := e.clients.Config(ctx, e.secrets, cluster)
	if err != nil {
		return nil, err
	}
	found := make([]etcd.EndpointHealth, len(endpoints))
	var all errgroup.Group
	all.SetLimit(endpointsAtOnce)
	for i, endpoint := range endpoints {
		all.Go(func() error {
			found[i] = etcd.AskEndpoint(ctx, config, endpoint)
			return nil
		})
	}
	return found, all.Wait()
}

// Forget implements EtcdEndpoints.
func (e *clusterEndpoints) Forget(key client.ObjectKey) { e.clients.Forget(key) }

// ExternalEtcdSeen is what the endpoints of an external etcd said last.
type ExternalEtcdSeen struct {
	// Read is when; zero: never.
	Read time.Time
	// said are in the order of the endpoints; why says why none was asked.
	said []etcd.EndpointHealth
	why  string
	of   []string
	// reached are the endpoints that this process has had an answer of.
	reached map[string]bool
}

// Fail reports whether an endpoint is not known to be healthy.
func (s ExternalEtcdSeen) Fail() bool {
	return s.why != "" || slices.ContainsFunc(s.said, func(h etcd.EndpointHealth) bool { return h.Health != plan.Healthy })
}

// down reports whether no endpoint is healthy, and one is known not to be. What was never reached proves nothing: the manager may
// have no route to it.
func (s ExternalEtcdSeen) down() bool {
	is := func(health plan.Health) bool {
		return slices.ContainsFunc(s.said, func(h etcd.EndpointHealth) bool { return h.Health == health })
	}
	return is(plan.Unhealthy) && !is(plan.Healthy)
}

// Ailments are what is wrong with the endpoints.
func (s ExternalEtcdSeen) Ailments() *Ailments {
	found := &Ailments{}
	if s.why != "" {
		found.Add(plan.Unknown, "%s", s.why)
	}
	for i, h := range s.said {
		found.Add(h.Health, "%s: %s", endpointTitle(s.of[i]), h.Why)
	}
	return found
}

// endpointTitle names an endpoint for people, without what else somebody may have written into its URL.
func endpointTitle(endpoint string) string {
	if at, err := url.Parse(endpoint); err == nil && at.Host != "" {
		return at.Host
	}
	return "an endpoint that is no URL"
}

// etcdEndpoints returns who asks the endpoints of an external etcd; nil: they are not asked.
func (t *Observer) etcdEndpoints() EtcdEndpoints {
	if t.EtcdEndpoints == nil && t.Once {
		return NewEtcdEndpoints(t.APIReader)
	}
	return t.EtcdEndpoints
}

// ObserveExternalEtcd asks the endpoints of an external etcd, and has nothing begun while none of them is healthy. No endpoints:
// etcd is not external, or they are not known.
func (t *Observer) ObserveExternalEtcd(ctx context.Context, endpoints []string) {
	o, m, ask := &t.Facts, &t.Memory.ExternalEtcd, t.etcdEndpoints()
	if len(endpoints) == 0 {
		*m = ExternalEtcdSeen{}
		return
	}
	if ask == nil || !(wants{t.View}).asksExternalEtcd() {
		return
	}
	age := SlowTime
	if m.Fail() || t.machinesChange() {
		age = FilesAge
	}
	endpoints = endpoints[:min(len(endpoints), mostEndpoints)] // of more, which are refused, the rest is not dialed
	if !slices.Equal(m.of, endpoints) || o.Now.Sub(m.Read) >= age {
		var said []etcd.EndpointHealth
		var err error
		Aside(ctx, func() { said, err = ask.Ask(ctx, t.Cluster, endpoints) })
		m.note(endpoints, said, err, o.Now)
	}
	if m.down() {
		wants{t.View}.refuseWithoutEtcd(m.Ailments().texts)
	}
}

// asksExternalEtcd reports whether the endpoints of an external etcd are to be asked.
func (t wants) asksExternalEtcd() bool {
	return !t.Facts.Group.Deleting && !t.Facts.Group.Paused && len(t.Facts.Uncontrolled) == 0
}

// refuseWithoutEtcd refuses the spec because of what is wrong with each endpoint of the external etcd.
func (t wants) refuseWithoutEtcd(texts []string) {
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], "* ")
	}
	t.Refuse(plan.Refusal{
		Reason:  "EtcdNotReady",
		Message: "no endpoint of the external etcd is healthy: " + Entries(texts, "; ", LongestDifferences),
	})
}

// note keeps what endpoints said. One that has answered before, and does not, is not healthy.
func (s *ExternalEtcdSeen) note(endpoints []string, said []etcd.EndpointHealth, err error, now time.Time) {
	if err != nil {
		*s = ExternalEtcdSeen{Read: now, of: slices.Clone(endpoints), reached: s.reached, why: fmt.Sprintf("it cannot be asked: %v", err)}
		return
	}
	reached := map[string]bool{}
	for i, h := range said {
		at := endpoints[i]
		reached[at] = s.reached[at] || h.Health != plan.Unknown
		if reached[at] && h.Health == plan.Unknown {
			said[i].Health = plan.Unhealthy
		}
	}
	*s = ExternalEtcdSeen{Read: now, said: said, of: slices.Clone(endpoints), reached: reached}
}
