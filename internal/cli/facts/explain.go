package facts

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/stacked"
)

// WithObserved adds what the next decision depends on, as far as it can be read; what cannot be is told as what etcd says.
func WithObserved(ctx context.Context, c client.Reader, s Seen) Seen {
	kcp := s.Objects.ControlPlane
	if kcp == nil {
		return s
	}
	observed, err := group.ObserveOnce(ctx, c, stacked.New(), client.ObjectKeyFromObject(kcp))
	if err != nil {
		external := kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined()
		observed = plan.Observed{Etcd: plan.Etcd{Managed: !external, Why: err.Error()}}
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
	kcp := objects.ControlPlane
	if kcp == nil {
		return report.Explanation{}, fmt.Errorf("cluster %s has no KubeadmControlPlane yet: there is nothing to explain", key)
	}
	observed, err := group.ObserveOnce(ctx, c, stacked.New(), client.ObjectKeyFromObject(kcp))
	if err != nil {
		return report.Explanation{}, fmt.Errorf("observing cluster %s: %w", key, err)
	}
	p := kcp.Status.Plan
	return report.Explanation{
		Cluster:  key.Name,
		Decision: plan.Next(observed),
		Verdicts: plan.Explain(observed),
		Reported: report.Next{Step: p.Step, Rule: p.Rule, Reason: p.Reason, Message: p.Message},
		Observed: &observed,
	}, nil
}
