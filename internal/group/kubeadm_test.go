package group

import (
	"context"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/kubeadm"
	"github.com/quorate/quorate/internal/plan"
)

// askedFiles counts how often kubeadm's files are asked for.
type askedFiles struct {
	KubeadmFiles
	asked *int
}

// Behind implements KubeadmFiles.
func (f askedFiles) Behind(context.Context, *clusterv1.Cluster, kubeadm.Wanted) (kubeadm.Behind, error) {
	*f.asked++
	return kubeadm.Behind{}, nil
}

// TestKubeadmFilesAreOld: what was said of kubeadm's files a moment ago is not believed when other endpoints of etcd are wanted, which the object does not
// tell: a machine would join with the old ones.
func TestKubeadmFilesAreOld(t *testing.T) {
	asked, memory := 0, &Memory{}
	look := func(generation int64, endpoints ...string) int {
		before := asked
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Generation = generation
		memory.ManagedEtcd.Endpoints = endpoints
		turn := &Turn{Object: kcp, Memory: memory, Controller: &Controller{Kubeadm: askedFiles{asked: &asked}}, Observation: &Observation{Facts: plan.Observed{
			Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Group: plan.Group{Initialized: true}, Cluster: plan.Cluster{Reachable: true}, Want: plan.Want{Replicas: 1},
		}}}
		if err := turn.ObserveKubeadm(t.Context(), kubeadm.Wanted{}); err != nil {
			t.Fatal(err)
		}
		return asked - before
	}
	for i, test := range []struct {
		generation int64
		endpoints  []string
		asked      int
	}{
		{1, []string{"https://a:2379"}, 1},
		{1, []string{"https://a:2379"}, 0},
		{1, []string{"https://proxy:2379"}, 1},
		{1, []string{"https://proxy:2379"}, 0},
		{2, []string{"https://proxy:2379"}, 1},
	} {
		if got := look(test.generation, test.endpoints...); got != test.asked {
			t.Errorf("look %d: asked %d times, want %d", i+1, got, test.asked)
		}
	}
}
