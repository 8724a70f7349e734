package stacked

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

func TestUpToDate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*clusterv1.Machine)
		want   string
	}{
		{"as wanted", func(*clusterv1.Machine) {}, "True UpToDate"},
		{"the kubelet too", func(m *clusterv1.Machine) {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"}
		}, "True UpToDate"},
		{"the kubelet is not", func(m *clusterv1.Machine) {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.35.4"}
		}, "False Updating: * The kubelet has version v1.35.4, wanted v1.36.3"},
		{"updated in place", func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}, "False Updating: * an in-place update is in progress"},
		{"outdated comes first", func(m *clusterv1.Machine) {
			m.Spec.Version = "v1.35.4"
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}, "False NotUpToDate: spec.version: v1.35.4, wanted v1.36.3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fine()
			test.change(s.Machines[0].Machine)
			n := renewed(s)
			if got := told(reported(n).MachineConditions(n.Machines[0]), clusterv1.MachineUpToDateCondition); got != test.want {
				t.Errorf("UpToDate is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestUpToDateOfTheDeleted: machines that go with their control plane are no better than before.
func TestUpToDateOfTheDeleted(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-worker",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	if err := w.client.Create(ctx, worker); err != nil {
		t.Fatal(err)
	}
	w.view.Nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown // nothing is rolled out meanwhile
	w.change(upgrade)
	w.forgetEtcd()
	w.settle()
	if err := w.client.Delete(ctx, w.kcp()); err != nil {
		t.Fatal(err)
	}
	if p := w.settle(); p.Reason != "WorkersRemain" {
		t.Fatalf("decided %+v", p)
	}
	if c := conditions.Get(w.machine("demo-cp-1"), clusterv1.MachineUpToDateCondition); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("its version is another, and it is said to be %+v", c)
	}
}

// TestLongConditions: the API server takes no message beyond 32768 bytes.
func TestLongConditions(t *testing.T) {
	s := fine()
	for i := range 400 {
		of(s.View).Spec.KubeadmConfigSpec.Files = append(of(s.View).Spec.KubeadmConfigSpec.Files,
			bootstrapv1.File{Path: fmt.Sprintf("/etc/kubernetes/some/where/file-%03d.yaml", i), Owner: "root:root", Content: "new"})
	}
	config := &bootstrapv1.KubeadmConfig{}
	config.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	n := renewed(s)
	for _, m := range n.Machines {
		m.Bootstrap = config
	}
	n.See(n.Inside)
	for _, m := range n.Machines {
		for _, c := range reported(n).MachineConditions(m) {
			conditions.Set(m, c)
		}
	}
	if got := told(n.Machines[0].Status.Conditions, clusterv1.MachineUpToDateCondition); len(got) > observe.LongestDifferences+100 ||
		!strings.Contains(got, "; ... and ") {
		t.Errorf("UpToDate has %d bytes, and ends with %q", len(got), got[max(0, len(got)-80):])
	}
	for _, c := range reported(n).Conditions(plan.Decision{}, nil) {
		if len(c.Message) > observe.LongestCondition {
			t.Errorf("%s has %d bytes", c.Type, len(c.Message))
		}
	}
}
