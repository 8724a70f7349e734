package stacked

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestNamesAreNewToTheCluster: after a backup of the management cluster was restored, only the cluster knows of the machines that came
// later. No machine gets the name of one of these, not even when that is gone meanwhile.
func TestNamesAreNewToTheCluster(t *testing.T) {
	for _, test := range []struct {
		name string
		node string
		want string
	}{
		{"a Node of no known machine", "demo-cp-4", "[demo-cp-1 demo-cp-2 demo-cp-3 demo-cp-5 demo-cp-6]"},
		{"one that is named otherwise", "demo-worker-4", "[demo-cp-1 demo-cp-2 demo-cp-3 demo-cp-4 demo-cp-5]"},
		{"one that ends in a date", "demo-cp-20261127", "[demo-cp-1 demo-cp-2 demo-cp-3 demo-cp-4 demo-cp-5]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := grown(t, 3)
			w.view.Nodes = append(w.view.Nodes, testNode(test.node))
			w.settle()
			w.view.Nodes = slices.DeleteFunc(w.view.Nodes, func(n corev1.Node) bool { return n.Name == test.node })
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](5) })
			w.forgetEtcd()
			w.settle()
			if got := fmt.Sprint(w.machineNames()); got != test.want {
				t.Errorf("there are %s, want %s", got, test.want)
			}
		})
	}
}

// TestBeginningOfAnotherTime: what was begun when the backup was made, and finished after it, is not finished once more.
func TestBeginningOfAnotherTime(t *testing.T) {
	w := grown(t, 3)
	step := plan.Step{Verb: plan.Create, Machine: "demo-cp-4", Number: 4}
	if err := w.scene().Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	m := w.machine("demo-cp-4") // which is of after the backup
	m.Finalizers = nil
	if err := errors.Join(w.client.Update(t.Context(), m), w.client.Delete(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	w.view.Nodes = append(w.view.Nodes, testNode("demo-cp-4"))
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](5) })
	w.use(w.client)
	w.forgetEtcd()
	w.settle()
	if got := w.machineNames(); slices.Contains(got, "demo-cp-4") || !slices.Contains(got, "demo-cp-5") {
		t.Errorf("there are %v, want demo-cp-5 and no demo-cp-4", got)
	}
}

// TestMemberOfAMachineThatVanished: a member that does not answer is dead where nothing is left of its machine.
func TestMemberOfAMachineThatVanished(t *testing.T) {
	for reason, want := range map[string]plan.Health{"Vanished": plan.Unhealthy, "Died": plan.Unknown} {
		s := fine()
		s.Survey.Members[1].Health = plan.Unknown
		s.Machines[1].Infrastructure = conditioned("Ready", "False", reason)
		n := renewed(s)
		n.AddEtcd(s.Survey, &observe.MemberTimes{}, n.Facts.Now)
		if got := n.Facts.Etcd.Members[1]; got.Health != want || got.Machine != "m2" {
			t.Errorf("%s: the member is %+v, want it %q", reason, got, want)
		}
	}
}
