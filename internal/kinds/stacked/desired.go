package stacked

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/group/observe"
)

// kubeletLocalMode is the feature gate of kubeadm with which a joining kubelet
// talks to the API server of its own machine. It is on by default from
// v1.36, where the gate is gone, and from v1.31 on it must be set. A kubelet
// one minor version ahead of the other API servers may not talk to them.
const kubeletLocalMode = "ControlPlaneKubeletLocalMode"

var (
	firstKubeletLocalMode = version.Version{Major: 1, Minor: 31}
	pastKubeletLocalMode  = version.Version{Major: 1, Minor: 36}
)

// managesEtcd reports whether etcd runs on the machines and its members are ours to keep.
func managesEtcd(kcp *controlplanev1.KubeadmControlPlane) bool {
	return !kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() && !kcp.Spec.ManagedExternalEtcdRef.IsDefined()
}

// Bootstrap implements group.Kind.
func (*Kind) Bootstrap(_ context.Context, t *observe.View, step plan.Step) (client.Object, clusterv1.Bootstrap, error) {
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: step.Machine}
	config := desiredConfig(buildable(t), t.Cluster.Name, step.Machine, step.Init)
	config.OwnerReferences = []metav1.OwnerReference{t.OwnerRef()}
	return config, clusterv1.Bootstrap{ConfigRef: ref}, nil
}

// desiredConfig returns the KubeadmConfig of a machine: the part of the user's
// configuration that its way into the cluster needs.
func desiredConfig(kcp *controlplanev1.KubeadmControlPlane, cluster, name string, initialise bool) *bootstrapv1.KubeadmConfig {
	spec := kcp.Spec.KubeadmConfigSpec.DeepCopy()
	if initialise {
		spec.JoinConfiguration = bootstrapv1.JoinConfiguration{}
	} else {
		spec.InitConfiguration = bootstrapv1.InitConfiguration{}
		// The ClusterConfiguration stays: the bootstrap provider reads from it whether etcd is external.
		if spec.JoinConfiguration.ControlPlane == nil {
			spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
		}
	}
	setFeatureGates(spec, kcp.Spec.Version)
	carries := drift.InPlace(kcp, cluster, drift.Machine{Machine: &clusterv1.Machine{}, Config: &bootstrapv1.KubeadmConfig{}}).Config
	return &bootstrapv1.KubeadmConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: kcp.Namespace, Labels: carries.Labels, Annotations: carries.Annotations},
		Spec:       *spec,
	}
}

// withGates returns the control plane as its machines are made: with the feature
// gates that are set for the user.
func withGates(kcp *controlplanev1.KubeadmControlPlane) *controlplanev1.KubeadmControlPlane {
	kcp = kcp.DeepCopy()
	setFeatureGates(&kcp.Spec.KubeadmConfigSpec, kcp.Spec.Version)
	return kcp
}

// setFeatureGates turns kubeletLocalMode on where kubeadm knows it and the user said nothing.
func setFeatureGates(spec *bootstrapv1.KubeadmConfigSpec, kubernetes string) {
	v, err := version.Parse(kubernetes)
	if err != nil || version.CompareMinor(v, firstKubeletLocalMode) < 0 || version.CompareMinor(v, pastKubeletLocalMode) >= 0 {
		return
	}
	if _, said := spec.ClusterConfiguration.FeatureGates[kubeletLocalMode]; said {
		return
	}
	if spec.ClusterConfiguration.FeatureGates == nil {
		spec.ClusterConfiguration.FeatureGates = map[string]bool{}
	}
	spec.ClusterConfiguration.FeatureGates[kubeletLocalMode] = true
}
