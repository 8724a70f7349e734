package observe

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
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

// TestKubeadmFilesAreOld: what was said of kubeadm's files a moment ago is believed as long as the same is wanted of them, and no longer.
// The object does not tell: endpoints of managed etcd, annotations and templates change without its generation, and a machine would join
// with what was there before.
func TestKubeadmFilesAreOld(t *testing.T) {
	asked, memory := 0, &Memory{}
	look := func(uid types.UID, generation int64, want kubeadm.Wanted) int {
		before := asked
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.UID, kcp.Generation = uid, generation
		turn := &Observer{Sources: Sources{Kubeadm: askedFiles{asked: &asked}}, View: &View{Object: kcp, Memory: memory, Facts: plan.Observed{
			Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Group: plan.Group{Initialized: true}, Cluster: plan.Cluster{Reachable: true},
			Want: plan.Want{Replicas: 1},
		}}}
		if err := turn.ObserveKubeadm(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		return asked - before
	}
	with := func(change func(*kubeadm.Wanted)) kubeadm.Wanted {
		w := kubeadm.Wanted{Version: "v1.36.3"}
		w.Configuration.Etcd.External.Endpoints = []string{"https://a:2379"}
		change(&w)
		return w
	}
	same := with(func(*kubeadm.Wanted) {})
	for i, test := range []struct {
		uid        types.UID
		generation int64
		want       kubeadm.Wanted
		asked      int
	}{
		{"1", 1, same, 1},
		{"1", 1, with(func(*kubeadm.Wanted) {}), 0},
		{"1", 1, with(func(w *kubeadm.Wanted) { w.Configuration.Etcd.External.Endpoints[0] = "https://proxy:2379" }), 1},
		{"1", 1, with(func(w *kubeadm.Wanted) { w.SkipDNS = true }), 1},
		{"1", 1, with(func(w *kubeadm.Wanted) { w.Version = "v1.36.4" }), 1},
		{"1", 1, same, 1},
		{"2", 1, same, 1},
		{"2", 1, same, 0},
		{"2", 2, same, 1},
	} {
		if got := look(test.uid, test.generation, test.want); got != test.asked {
			t.Errorf("look %d: asked %d times, want %d", i+1, got, test.asked)
		}
	}
}

// TestGoneMachines: the Nodes of machines that were given up go. In a new management cluster all Nodes go that the snapshot holds, but for
// those that report again and those of Machines that are known.
func TestGoneMachines(t *testing.T) {
	began := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	node := func(of string, controlPlane bool, created, reported time.Duration) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{clusterv1.MachineAnnotation: of}, CreationTimestamp: metav1.NewTime(began.Add(created)),
		}}
		if controlPlane {
			n.Labels = map[string]string{machine.NodeLabel: ""}
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(began.Add(reported))}}
		return n
	}
	given := GoneMachines{Given: []string{"cp-1"}}
	former := GoneMachines{Before: began, Known: []string{"cp-4", "worker-9"}}
	for name, test := range map[string]struct {
		gone GoneMachines
		node *corev1.Node
		goes bool
	}{
		"given up":                       {given, node("cp-1", true, -time.Hour, -time.Minute), true},
		"not given up":                   {given, node("cp-2", true, -time.Hour, -time.Minute), false},
		"a worker":                       {given, node("cp-1", false, -time.Hour, -time.Minute), false},
		"a former control plane machine": {former, node("cp-1", true, -time.Hour, -time.Minute), true},
		"a former worker":                {former, node("worker-1", false, -time.Hour, -time.Minute), true},
		"a new machine":                  {former, node("cp-4", true, time.Minute, time.Minute), false},
		"a new worker under an old Node": {former, node("worker-9", false, -time.Hour, -time.Minute), false},
		"a Node that was made since":     {former, node("worker-7", false, time.Second, time.Minute), false},
		"a worker that reports again":    {former, node("worker-1", false, -time.Hour, time.Minute), false},
	} {
		if got := test.gone.has(test.node); got != test.goes {
			t.Errorf("%s: goes %t", name, got)
		}
	}
}
