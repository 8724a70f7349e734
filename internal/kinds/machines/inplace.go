package machines

import (
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/group/observe"
)

// Goal implements group.Kind: what bootstrap templates say does not change while they are the same.
func (*Kind) Goal(t *observe.View) drift.Goal {
	spec := of(t).Spec
	return drift.NewGoal(spec.Version, bootstrapv1.ClusterConfiguration{}, spec.MachineTemplate.Spec.InfrastructureRef)
}

// Desired implements group.Kind: another bootstrap template needs another machine.
func (*Kind) Desired(_ *observe.View, m *observe.Machine) client.Object { return m.Bootstrap }
