package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestFormerEtcdPods: of the pods of etcd those are deleted before a machine joins that came with the snapshot of a recovery, whether its
// object is there or not: no pod of a machine that stays, and none of a cluster that was never recovered, nor one that is younger.
func TestFormerEtcdPods(t *testing.T) {
	began := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	before, after := metav1.NewTime(began.Add(-time.Hour)), metav1.NewTime(began.Add(time.Minute))
	pod := func(node string, at metav1.Time) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: workload.EtcdPod(node), CreationTimestamp: at,
				Labels:          map[string]string{"component": "etcd", "tier": "control-plane"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: node}}},
			Spec: corev1.PodSpec{NodeName: node},
		}
	}
	machine := func(name string, at metav1.Time, seeded, hook, deleting bool) *Machine {
		m := &Machine{Machine: &clusterv1.Machine{}, Facts: &plan.Machine{Name: name, Deleting: deleting, Hook: hook}}
		m.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at}}
		if seeded {
			m.Annotations = map[string]string{SeededByAnnotation: "uid"}
		}
		return m
	}
	for name, test := range map[string]struct {
		machines []*Machine
		pods     []corev1.Pod
		hidden   bool
		want     string
	}{
		"after a recovery": {
			machines: []*Machine{machine("cp-4", began, true, true, false)},
			pods:     []corev1.Pod{pod("cp-1", before), pod("cp-2", before), pod("cp-4", after), pod("cp-9", after)}, want: "etcd-cp-1, etcd-cp-2",
		},
		"with many": {
			machines: []*Machine{machine("cp-6", began, true, true, false)},
			pods: []corev1.Pod{pod("cp-1", before), pod("cp-2", before), pod("cp-3", before), pod("cp-4", before),
				pod("cp-5", before)},
			want: "etcd-cp-1, etcd-cp-2, etcd-cp-3 and 2 more",
		},
		"with an old machine that is declared off and may run": {
			machines: []*Machine{machine("cp-1", before, false, false, true), machine("cp-4", began, true, true, false)},
			pods:     []corev1.Pod{pod("cp-1", before), pod("cp-4", after)}, want: "etcd-cp-1",
		},
		"with a Node that was registered again": {
			machines: []*Machine{machine("cp-4", after, true, true, false), machine("cp-5", began, false, true, false),
				machine("cp-6", began, false, true, true)},
			pods: []corev1.Pod{pod("cp-4", began), pod("cp-5", began), pod("cp-6", began)},
		},
		"without a recovery": {
			machines: []*Machine{machine("cp-4", began, false, true, false)}, pods: []corev1.Pod{pod("cp-1", before)},
		},
		"when who restored the snapshot is gone": {
			machines: []*Machine{machine("cp-4", began, true, false, true)}, pods: []corev1.Pod{pod("cp-1", before)},
		},
		"of a cluster that does not answer": {
			machines: []*Machine{machine("cp-4", began, true, true, false)}, pods: []corev1.Pod{pod("cp-1", before)}, hidden: true,
		},
	} {
		o := &View{Machines: test.machines, Inside: workload.View{Pods: test.pods}}
		o.Facts.Cluster.Reachable = !test.hidden
		wants{o}.addEtcdPods()
		_, told, _ := strings.Cut(choreMessage(o), "has pods: ")
		if told != test.want {
			t.Errorf("%s: %q are to go, want %q", name, told, test.want)
		}
	}
}

// choreMessage is what the only chore says; empty: nothing is due.
func choreMessage(o *View) string {
	i := slices.IndexFunc(o.Facts.Cluster.Chores, func(c plan.Chore) bool {
		return c.Name == ChoreEtcdPods && c.Due == plan.DueJoin && c.Inside
	})
	if i < 0 {
		return ""
	}
	return o.Facts.Cluster.Chores[i].Message
}
