package stacked

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/version"
)

// kind is the kind that owns everything made here.
const kind = "KubeadmControlPlane"

// metrics are those of all control planes of the kind.
const metrics group.Metrics = kind

// kubeletLocalMode is the feature gate of kubeadm with which a joining kubelet
// talks to the API server of its own machine. It is on by default from
// v1.36, where the gate is gone, and must be asked for from v1.31: a kubelet
// one minor version ahead of the other API servers may not talk to them.
const kubeletLocalMode = "ControlPlaneKubeletLocalMode"

var (
	firstKubeletLocalMode = version.Version{Major: 1, Minor: 31}
	pastKubeletLocalMode  = version.Version{Major: 1, Minor: 36}
)

// born is what a machine's objects carry when they are made.
func born(kcp *controlplanev1.KubeadmControlPlane, cluster string) drift.Changes {
	return drift.InPlace(kcp, cluster, drift.Machine{
		Machine:        &clusterv1.Machine{},
		Config:         &bootstrapv1.KubeadmConfig{},
		Infrastructure: &unstructured.Unstructured{Object: map[string]any{}},
	})
}

// controllerRef makes the control plane the controller of an object.
func controllerRef(kcp *controlplanev1.KubeadmControlPlane) metav1.OwnerReference {
	return *metav1.NewControllerRef(kcp, controlplanev1.GroupVersion.WithKind(kind))
}

// ownerRef makes the control plane an owner of an object whose controller will
// be the Machine, once that exists.
func ownerRef(kcp *controlplanev1.KubeadmControlPlane) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: controlplanev1.GroupVersion.String(),
		Kind:       kind,
		Name:       kcp.Name,
		UID:        kcp.UID,
	}
}

// desiredMachine returns the Machine to be created under a name, without its
// references.
func desiredMachine(kcp *controlplanev1.KubeadmControlPlane, cluster, name, domain string) *clusterv1.Machine {
	carries := born(kcp, cluster).Machine
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       kcp.Namespace,
			Labels:          carries.Metadata.Labels,
			Annotations:     carries.Metadata.Annotations,
			OwnerReferences: []metav1.OwnerReference{controllerRef(kcp)},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:    cluster,
			Version:        kcp.Spec.Version,
			FailureDomain:  domain,
			ReadinessGates: carries.ReadinessGates,
			Taints:         carries.Taints,
			Deletion:       carries.Deletion,
		},
	}
	if machine.Annotations == nil {
		machine.Annotations = map[string]string{}
	}
	// The hook is there from birth: a machine that is deleted at once may already be a member.
	machine.Annotations[upstream.PreTerminateHookCleanupAnnotation] = ""
	return machine
}

// managesEtcd reports whether etcd runs on the machines and its members are ours to keep.
func managesEtcd(kcp *controlplanev1.KubeadmControlPlane) bool {
	return !kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined()
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
	carries := born(kcp, cluster).Config
	return &bootstrapv1.KubeadmConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       kcp.Namespace,
			Labels:          carries.Labels,
			Annotations:     carries.Annotations,
			OwnerReferences: []metav1.OwnerReference{ownerRef(kcp)},
		},
		Spec: *spec,
	}
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
