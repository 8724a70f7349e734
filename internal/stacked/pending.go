package stacked

import (
	"cmp"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/plan"
)

// refuseBeforeTopology begins nothing while a newer version is on its way from the cluster's
// topology: it would be done twice. Upstream repairs nothing meanwhile either, and makes no
// replacement; a first machine is made all the same.
func (s *scene) refuseBeforeTopology() {
	topology := s.Cluster.Spec.Topology
	if !topology.IsDefined() || len(s.Machines) == 0 {
		return
	}
	// An upgrade over several minor versions is one step after another.
	next := cmp.Or(s.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation], topology.Version)
	if has := s.kcp.Spec.Version; has != next && has != topology.Version {
		s.Refuse(plan.Refusal{Reason: "TopologyPending",
			Message: fmt.Sprintf("spec.version is %s, and the topology of cluster %s brings %s next", has, s.Cluster.Name, next)})
	}
}
