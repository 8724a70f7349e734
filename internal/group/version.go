package group

import (
	"cmp"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/version"
)

// refuseBeforeTopology begins nothing while a newer version is on its way from the cluster's
// topology: it would be done twice. Upstream repairs nothing meanwhile either, and makes no
// replacement; a first machine is made all the same.
func (t *Turn) refuseBeforeTopology() {
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

// leap says why the machines cannot be brought to the wanted version; empty: they can.
// One minor version at a time, and back only to where some of them still are.
func leap(want string, machines []*clusterv1.Machine) string {
	to, err := version.Parse(want)
	if err != nil || len(machines) == 0 {
		return ""
	}
	var oldest version.Version
	for i, m := range machines {
		v, err := version.Parse(m.Spec.Version)
		if err != nil {
			return ""
		}
		if i == 0 || version.CompareMinor(v, oldest) < 0 {
			oldest = v
		}
	}
	switch {
	case version.CompareMinor(to, oldest) < 0:
		return fmt.Sprintf("spec.version is %s, and no machine is older than v%d.%d: it goes back only to where some machine still is", want, oldest.Major, oldest.Minor)
	case to.Major != oldest.Major || to.Minor > oldest.Minor+1:
		return fmt.Sprintf("spec.version is %s, and the oldest machine has v%d.%d: one minor version at a time, v%d.%d would be accepted", want, oldest.Major, oldest.Minor, oldest.Major, oldest.Minor+1)
	}
	return ""
}
