package drift

import (
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Desired returns what the spec of a machine's KubeadmConfig is once the machine is in all as its control plane wants it, whatever
// changes it. What is no difference stays as it is written: a question about the rest is about nothing else. A machine that init has made
// stays one, unless what only a join would make of it is wanted. Machine.Config must not be nil.
func Desired(kcp *controlplanev1.KubeadmControlPlane, m Machine) bootstrapv1.KubeadmConfigSpec {
	was, want := tree(m.Config.Spec), tree(kcp.Spec.KubeadmConfigSpec)
	out := m.Config.Spec.DeepCopy()
	wanted := kcp.Spec.KubeadmConfigSpec.DeepCopy()
	if len(ofNode(was, want)) > 0 {
		join := wanted.JoinConfiguration
		if join.ControlPlane == nil {
			join.ControlPlane = &bootstrapv1.JoinControlPlane{}
		}
		if len(tree(join.Discovery)) == 0 { // the bootstrap provider fills it in
			join.Discovery = out.JoinConfiguration.Discovery
		}
		out.InitConfiguration, out.JoinConfiguration = bootstrapv1.InitConfiguration{}, join
	}
	record, known := clusterConfiguration(m)
	if known && len(compare(spec.member(clusterPart), tree(record), want[clusterPart])) > 0 {
		endpoint := out.ClusterConfiguration.ControlPlaneEndpoint
		out.ClusterConfiguration = wanted.ClusterConfiguration
		if wanted.ClusterConfiguration.ControlPlaneEndpoint == "" { // the same
			out.ClusterConfiguration.ControlPlaneEndpoint = endpoint
		}
	}
	for _, part := range []string{clusterPart, initPart, joinPart} {
		delete(was, part)
		delete(want, part)
	}
	if len(compare(spec, was, want)) == 0 {
		return *out
	}
	wanted.ClusterConfiguration, wanted.InitConfiguration, wanted.JoinConfiguration = out.ClusterConfiguration, out.InitConfiguration,
		out.JoinConfiguration
	return *wanted
}
