package observe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
)

// TestStrayNodesMessage: the message names three Nodes, and counts the others.
func TestStrayNodesMessage(t *testing.T) {
	for nodes, want := range map[string]string{
		"a":         "no Machine has control plane node a: ",
		"a b c":     "no Machine has control plane node a, b, c: ",
		"e d c b a": "no Machine has control plane node a, b, c and 2 more: ",
	} {
		view := workload.View{Reachable: true}
		for _, name := range strings.Fields(nodes) {
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{machine.NodeLabel: ""}}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			view.Nodes = append(view.Nodes, node)
		}
		turn := &Observer{View: &View{Inside: view}}
		wants{turn.View}.refuseStrayNodes()
		if got := turn.Facts.Want.Refused.Message; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", nodes, got, want)
		}
	}
}
