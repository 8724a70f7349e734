package kubeadm

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestAddonHealth: what the statuses of kube-proxy's DaemonSet and CoreDNS's Deployment say of them.
func TestAddonHealth(t *testing.T) {
	const unseen = "its controller has not seen generation 2 yet, only 1"
	tests := []struct {
		name   string
		change func(*appsv1.DaemonSet, *appsv1.Deployment)
		spec   bootstrapv1.KubeadmConfigSpec
		skip   bool
		proxy  AddonHealth
		dns    AddonHealth
	}{
		{name: "all work", proxy: AddonHealth{State: AddonWorks}, dns: AddonHealth{State: AddonWorks}},
		{name: "a Node is without kube-proxy, CoreDNS has no replica", change: func(p *appsv1.DaemonSet, d *appsv1.Deployment) {
			p.Status.NumberAvailable, d.Status.AvailableReplicas, d.Status.Conditions[0].Status = 2, 0, corev1.ConditionFalse
		}, proxy: AddonHealth{AddonFails, "available on 2 of 3 Nodes"}, dns: AddonHealth{AddonFails, "0 of 2 replicas available"}},
		{name: "CoreDNS serves with one replica less", change: func(_ *appsv1.DaemonSet, d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 },
			proxy: AddonHealth{State: AddonWorks}, dns: AddonHealth{State: AddonWorks}},
		{name: "a status without conditions", change: func(_ *appsv1.DaemonSet, d *appsv1.Deployment) { d.Status.Conditions = nil },
			proxy: AddonHealth{State: AddonWorks}, dns: AddonHealth{AddonFails, "2 of 2 replicas available"}},
		{name: "negative numbers", change: func(p *appsv1.DaemonSet, d *appsv1.Deployment) {
			p.Status.NumberAvailable, d.Status.AvailableReplicas, d.Status.Conditions = -5, -5, nil
		}, proxy: AddonHealth{AddonFails, "available on 0 of 3 Nodes"}, dns: AddonHealth{AddonFails, "0 of 2 replicas available"}},
		{name: "their controllers do not work", change: func(p *appsv1.DaemonSet, d *appsv1.Deployment) { p.Generation, d.Generation = 2, 2 },
			proxy: AddonHealth{AddonUnknown, unseen}, dns: AddonHealth{AddonUnknown, unseen}},
		{name: "replaced by others", change: func(p *appsv1.DaemonSet, d *appsv1.Deployment) {
			p.Status.DesiredNumberScheduled, d.Spec.Replicas = 0, ptr.To(int32(0))
		}},
		{name: "kept by others", skip: true},
		{name: "left out by kubeadm", spec: skipping("addon")},
		{name: "kube-proxy is left out by kubeadm", spec: skipping("addon/kube-proxy"), dns: AddonHealth{State: AddonWorks}},
		{name: "CoreDNS is left out by kubeadm", spec: skipping("addon/coredns"), proxy: AddonHealth{State: AddonWorks}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			proxy, dns := &appsv1.DaemonSet{ObjectMeta: named("kube-proxy")}, &appsv1.Deployment{ObjectMeta: named("coredns")}
			proxy.Generation, proxy.Status = 1, appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3, NumberAvailable: 3}
			dns.Generation, dns.Spec.Replicas = 1, ptr.To(int32(2))
			dns.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			}}
			if test.change != nil {
				test.change(proxy, dns)
			}
			want := wanted("v1.35.4", nil)
			want.SkipProxy, want.SkipDNS = test.skip, test.skip
			want.ProxyOfOthers, want.DNSOfOthers = AddonsOfOthers(&test.spec)
			got, err := Look(t.Context(), fake.NewClientset(configMap(written), proxy, dns), want)
			if err != nil || got.Proxy != test.proxy || got.DNS != test.dns {
				t.Errorf("kube-proxy %+v, CoreDNS %+v, %v, want %+v and %+v", got.Proxy, got.DNS, err, test.proxy, test.dns)
			}
		})
	}
	got, err := Look(t.Context(), fake.NewClientset(configMap(written)), wanted("v1.35.4", nil))
	if err != nil || got.Proxy != (AddonHealth{}) || got.DNS != (AddonHealth{}) {
		t.Errorf("without add-ons: %+v, %v", got, err)
	}
}

func skipping(phase string) bootstrapv1.KubeadmConfigSpec {
	return bootstrapv1.KubeadmConfigSpec{InitConfiguration: bootstrapv1.InitConfiguration{SkipPhases: []string{phase}}}
}
