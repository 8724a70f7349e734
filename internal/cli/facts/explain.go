package facts

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// WithObserved adds what the next decisions depend on, as far as it can be read; what cannot be is told as what etcd says.
func WithObserved(ctx context.Context, c client.Reader, s Seen) Seen {
	if cp := s.Objects.ControlPlane; cp != nil {
		s.Observed = observedOf(ctx, c, cp)
	}
	s.EtcdObserved = map[string]*plan.Observed{}
	for _, e := range s.Objects.EtcdClusters {
		s.EtcdObserved[e.Key.Name] = observedOf(ctx, c, e)
	}
	return s
}

// observedOf is what the next decision about one group depends on.
func observedOf(ctx context.Context, c client.Reader, of *Group) *plan.Observed {
	observed, err := observe.Once(ctx, c, of.Kind, of.Key)
	if err != nil {
		observed = plan.Observed{Etcd: plan.Etcd{Why: err.Error()}}
		if of.HoldsQuorum {
			observed.Etcd.Owner = plan.EtcdOurs
		}
	}
	return &observed
}

// Explain says what every rule says about a cluster's control plane now, or its etcd cluster on machines of its own, and what the
// controller said last.
func Explain(ctx context.Context, c client.Reader, key client.ObjectKey, etcd bool) (report.Explanation, error) {
	of, err := asked(ctx, c, key, etcd)
	if err != nil {
		return report.Explanation{}, err
	}
	observed, err := observe.Once(ctx, c, of.Kind, of.Key)
	if err != nil {
		return report.Explanation{}, fmt.Errorf("observing cluster %s: %w", key, err)
	}
	return report.Explanation{
		Cluster:  key.Name,
		Group:    of.Kind.Type().Kind + " " + of.Key.Name,
		Decision: plan.Next(observed),
		Verdicts: plan.Explain(observed),
		Reported: of.Next,
		Observed: &observed,
	}, nil
}

// asked is the group that is asked about: a cluster's control plane, or its etcd cluster on machines of its own.
func asked(ctx context.Context, c client.Reader, key client.ObjectKey, etcd bool) (*Group, error) {
	objects, err := Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	switch {
	case etcd && len(objects.EtcdClusters) == 0:
		return nil, fmt.Errorf(
			"cluster %s has no EtcdCluster: without --etcd the answer is about its control plane, and the etcd on its machines", key)
	case etcd:
		return objects.EtcdClusters[0], nil
	case objects.ControlPlane == nil:
		return nil, fmt.Errorf("cluster %s has no %s yet: there is nothing to tell", key, wantedKind(objects.Cluster))
	}
	return objects.ControlPlane, nil
}

// wantedKind names the kind of control plane that a cluster is to have, of those that are known here.
func wantedKind(cluster *clusterv1.Cluster) string {
	if kind := kindOf(cluster.Spec.ControlPlaneRef); kind != nil {
		return kind.Type().Kind
	}
	var names []string
	for _, kind := range kinds() {
		names = append(names, kind.Type().Kind)
	}
	return strings.Join(names, " or ")
}
