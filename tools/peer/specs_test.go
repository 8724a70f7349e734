//go:build e2e

package peer

import (
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var provider = ptr.To(Provider)

var _ = ginkgo.Describe("QuickStart", func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
		}
	})
})

var _ = ginkgo.Describe("QuickStartOfClass", func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 ptr.To("topology"),
		}
	})
})

var _ = ginkgo.Describe("MachineDeploymentScale", func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
		}
	})
})

var _ = ginkgo.Describe("MachineDeploymentRemediation", func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
		}
	})
})

var _ = ginkgo.Describe("KCPAdoption", func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
		}
	})
})

var _ = ginkgo.Describe("KCPRemediation", func() {
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
		}
	})
})

var _ = ginkgo.Describe("KCPAndMachineDeploymentRollout", func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 "kcp-md-taints",
		}
	})
})

var _ = ginkgo.Describe("ClusterUpgradeWithoutConformance", func() {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		return e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 ptr.To("topology"), ControlPlaneMachineCount: ptr.To[int64](3), WorkerMachineCount: ptr.To[int64](1),
			SkipConformanceTests: true,
		}
	})
})

var _ = ginkgo.Describe("ClusterClassRollout", func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 "topology-taints", FilterMetadataBeforeValidation: withoutOurs,
		}
	})
})

var _ = ginkgo.Describe("ClusterClassChanges", func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider:   provider,
			Flavor:                   "topology",
			ModifyControlPlaneFields: map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{"spec.template.spec.verbosity": int64(4)},
		}
	})
})

var _ = ginkgo.Describe("NodeDrainTimeout", func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 ptr.To("topology"),
		}
	})
})

var _ = ginkgo.Describe("ClusterDeletion", func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configAt, BootstrapClusterProxy: plane, ArtifactFolder: artifacts,
			InfrastructureProvider: provider,
			Flavor:                 ptr.To("topology"), ControlPlaneMachineCount: ptr.To[int64](3),
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				phase("Machine", []string{"MachineDeployment", "MachineSet"}, "MachineDeployment", "MachineSet"),
				phase("Machine", []string{"KubeadmControlPlane"}, "KubeadmControlPlane"),
				phase("LocalCluster", nil, "LocalCluster"),
			},
		}
	})
})

// phase is one phase of a deletion: objects of some kinds go, and those of one kind that have an owner of some kinds, which the others wait
// for.
func phase(blocking string, owners []string, kinds ...string) e2e.ClusterDeletionPhase {
	return e2e.ClusterDeletionPhase{
		ObjectFilter: func(o corev1.ObjectReference, of []metav1.OwnerReference) bool {
			owned := slices.ContainsFunc(of, func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.Kind) })
			return o.Kind == blocking && owned || slices.Contains(kinds, o.Kind)
		},
		BlockingObjectFilter: func(o corev1.ObjectReference, _ []metav1.OwnerReference) bool { return o.Kind == blocking },
	}
}

// ours are what Quorate writes on objects beside what the spec about classes counts; docs/compatibility.md lists them.
var ours = []string{"controlplane.cluster.x-k8s.io/quorate", "infrastructure.cluster.x-k8s.io/local-owner",
	"upgrade.cluster.x-k8s.io/prepares-images"}

// withoutOurs is the metadata of an object without what docs/compatibility.md lists as Quorate's own.
func withoutOurs(o client.Object) clusterv1.ObjectMeta {
	annotations := o.GetAnnotations()
	for key := range annotations {
		if slices.ContainsFunc(ours, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			delete(annotations, key)
		}
	}
	return clusterv1.ObjectMeta{Labels: o.GetLabels(), Annotations: annotations}
}
