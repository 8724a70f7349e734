package stacked

import (
	"maps"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestHealthCheckIsSeen: whoever looks at objects of one watch filter only looks at the
// control plane's health check too, also when the filter is given later.
func TestHealthCheckIsSeen(t *testing.T) {
	w := grown(t, 3)
	for _, filter := range []string{"", "east", "west", ""} {
		want := map[string]string{clusterv1.ClusterNameLabel: "demo"}
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
			kcp.Labels = maps.Clone(want)
			if filter != "" {
				kcp.Labels[clusterv1.WatchLabel], want[clusterv1.WatchLabel] = filter, filter
			}
		})
		w.settle()
		check := &clusterv1.MachineHealthCheck{}
		if err := w.client.Get(t.Context(), kcpKey, check); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(check.Labels, want) {
			t.Errorf("filter %q: labels of the health check are %v, want %v", filter, check.Labels, want)
		}
	}
}
