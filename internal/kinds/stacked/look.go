package stacked

import (
	"context"
	"slices"

	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/group/observe"
)

// tokenPhase is the phase of kubeadm init that lets others join.
const tokenPhase = "bootstrap-token"

// Look implements group.Kind.
func (k *Kind) Look(ctx context.Context, t observe.Seen) error {
	t.ObserveExternalEtcd(ctx, buildable(t.View).Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints)
	t.ObserveInit(ctx, !skips(of(t.View), tokenPhase))
	if err := t.ObserveKubeadm(ctx, wantedOf(buildable(t.View), kubeadm.DataOf(t.Cluster))); err != nil {
		return err
	}
	k.observeExpiries(ctx, t.Observer)
	return nil
}

// skips reports whether the user lets kubeadm init leave out a phase.
func skips(kcp *controlplanev1.KubeadmControlPlane, phase string) bool {
	return slices.Contains(kcp.Spec.KubeadmConfigSpec.InitConfiguration.SkipPhases, phase)
}

// wantedOf is what kubeadm's files in the cluster must say.
func wantedOf(kcp *controlplanev1.KubeadmControlPlane, data kubeadm.ClusterData) kubeadm.Wanted {
	_, skipProxy := kcp.Annotations[upstream.SkipKubeProxyAnnotation]
	_, skipDNS := kcp.Annotations[upstream.SkipCoreDNSAnnotation]
	proxyOfOthers, dnsOfOthers := kubeadm.AddonsOfOthers(&kcp.Spec.KubeadmConfigSpec)
	return kubeadm.Wanted{
		Version:       kcp.Spec.Version,
		Configuration: withGates(kcp).Spec.KubeadmConfigSpec.ClusterConfiguration,
		SkipProxy:     skipProxy,
		SkipDNS:       skipDNS,
		ProxyOfOthers: proxyOfOthers,
		DNSOfOthers:   dnsOfOthers,
		Cluster:       data,
	}
}
