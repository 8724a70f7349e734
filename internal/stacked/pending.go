package stacked

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/plan"
)

// updateMachineHook is the name of the hook that Cluster API notes as pending on a Machine while
// an extension updates it.
const updateMachineHook = "UpdateMachine"

// refuseBeforeTopology begins nothing while a newer version is on its way from the cluster's
// topology: it would be done twice. Upstream repairs nothing meanwhile either, and makes no
// replacement; a first machine is made all the same.
func (s *scene) refuseBeforeTopology() {
	topology := s.cluster.Spec.Topology
	if !topology.IsDefined() || len(s.machines) == 0 {
		return
	}
	// An upgrade over several minor versions is one step after another.
	next := cmp.Or(s.cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation], topology.Version)
	if has := s.kcp.Spec.Version; has != next && has != topology.Version {
		s.refuse(plan.Refusal{Reason: "TopologyPending",
			Message: fmt.Sprintf("spec.version is %s, and the topology of cluster %s brings %s next", has, s.cluster.Name, next)})
	}
}

// updating says what somebody else changes inside a Machine; empty: nothing. Upstream's
// controller may have begun it; Cluster API's core ends it.
func updating(m *clusterv1.Machine) string {
	_, begun := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	pending := strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ",")
	if !begun && !slices.Contains(pending, updateMachineHook) {
		return ""
	}
	if c := conditions.Get(m, clusterv1.MachineUpdatingCondition); c != nil && conditions.IsTrue(m, c.Type) && c.Message != "" {
		return strings.ReplaceAll(c.Message, "\n", "; ")
	}
	return "an in-place update is in progress"
}
