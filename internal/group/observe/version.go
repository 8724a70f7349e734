package observe

import (
	"cmp"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
)

// wants adds to the facts what follows from what was read: what is wanted, what is refused, which names are taken, which chores are due.
type wants struct{ *View }

// refuseBeforeTopology begins nothing while a newer version is on its way from the cluster's
// topology: it would be done twice. Upstream repairs nothing meanwhile either, and makes no
// replacement; a first machine is made all the same.
func (t wants) refuseBeforeTopology() {
	topology := t.Cluster.Spec.Topology
	if !topology.IsDefined() || len(t.Machines) == 0 {
		return
	}
	// An upgrade over several minor versions is one step after another.
	next := cmp.Or(t.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation], topology.Version)
	if has := t.Spec.Version; has != "" && has != next && has != topology.Version {
		t.Refuse(plan.Refusal{Reason: "TopologyPending",
			Message: fmt.Sprintf("spec.version is %s, and the topology of cluster %s brings %s next", has, t.Cluster.Name, next)})
	}
}
