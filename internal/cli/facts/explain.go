package facts

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// WithObserved adds what the next decision depends on, as far as it can be read; what cannot be is told as what etcd says.
func WithObserved(ctx context.Context, c client.Reader, s Seen) Seen {
	cp := s.Objects.ControlPlane
	if cp == nil {
		return s
	}
	observed, err := group.ObserveOnce(ctx, c, cp.Kind, cp.Key)
	if err != nil {
		observed = plan.Observed{Etcd: plan.Etcd{Why: err.Error()}}
		if cp.HoldsQuorum {
			observed.Etcd.Owner = plan.EtcdOurs
		}
	}
	s.Observed = &observed
	return s
}

// Explain says what every rule says about a cluster's control plane now, and what the controller said last.
func Explain(ctx context.Context, c client.Reader, key client.ObjectKey) (report.Explanation, error) {
	objects, err := Read(ctx, c, key)
	if err != nil {
		return report.Explanation{}, err
	}
	cp := objects.ControlPlane
	if cp == nil {
		return report.Explanation{}, fmt.Errorf("cluster %s has no %s yet: there is nothing to explain", key, wantedKind(objects.Cluster))
	}
	observed, err := group.ObserveOnce(ctx, c, cp.Kind, cp.Key)
	if err != nil {
		return report.Explanation{}, fmt.Errorf("observing cluster %s: %w", key, err)
	}
	p := cp.Plan
	return report.Explanation{
		Cluster:  key.Name,
		Decision: plan.Next(observed),
		Verdicts: plan.Explain(observed),
		Reported: report.Next{Step: p.Step, Rule: p.Rule, Reason: p.Reason, Message: p.Message},
		Observed: &observed,
	}, nil
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
