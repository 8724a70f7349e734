package stacked

import (
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// withEtcd returns a control plane with its managed etcd as an external one, at endpoints. Without one it is returned as it is.
func withEtcd(kcp *controlplanev1.KubeadmControlPlane, endpoints []string) *controlplanev1.KubeadmControlPlane {
	if !kcp.Spec.ManagedExternalEtcdRef.IsDefined() {
		return kcp
	}
	kcp = kcp.DeepCopy()
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd = observe.ExternalEtcd(endpoints)
	return kcp
}

// wantedAs returns the control plane as a machine should be of it. While the endpoints of its managed etcd are not known, a machine
// keeps those that it was made with.
func wantedAs(t *observe.View, m *observe.Machine) *controlplanev1.KubeadmControlPlane {
	endpoints := t.Memory.ManagedEtcd.Endpoints
	if config := kubeadmConfig(m); len(endpoints) == 0 && config != nil {
		endpoints = config.Spec.ClusterConfiguration.Etcd.External.Endpoints
	}
	return withEtcd(of(t), endpoints)
}
