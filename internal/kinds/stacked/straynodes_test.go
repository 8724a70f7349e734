package stacked

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestNodeWithoutMachine: with external etcd nothing new is begun while a control plane node reports that no Machine has; one that is
// silent, one of a worker and one without the label hold up nothing.
func TestNodeWithoutMachine(t *testing.T) {
	stray := func(change func(*corev1.Node)) corev1.Node {
		node := testNode("old-cp-1")
		change(&node)
		return node
	}
	for name, row := range map[string]struct {
		node  corev1.Node
		holds bool
	}{
		"reports":   {stray(func(*corev1.Node) {}), true},
		"is silent": {stray(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), false},
		"of a worker": {stray(func(n *corev1.Node) {
			n.Annotations = map[string]string{clusterv1.MachineAnnotation: "demo-worker"}
		}), false},
		"without the label": {stray(func(n *corev1.Node) { n.Labels = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := onEtcdAt(t, 1)
			worker := &clusterv1.Machine{}
			worker.Namespace, worker.Name, worker.Labels = "default", "demo-worker", map[string]string{clusterv1.ClusterNameLabel: "demo"}
			worker.Spec.ClusterName = "demo"
			if err := w.client.Create(t.Context(), worker); err != nil {
				t.Fatal(err)
			}
			if p := w.settle(); p.Step != string(plan.Nothing) {
				t.Fatalf("not at rest: %+v", p)
			}
			w.view.Nodes = append(w.view.Nodes, row.node)
			for _, ask := range []func(*controlplanev1.KubeadmControlPlane){
				func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](3) },
				func(kcp *controlplanev1.KubeadmControlPlane) {
					kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "hello"}}
				},
			} {
				before := len(w.machineNames())
				w.change(ask)
				p := w.settle()
				if held := p.Reason == "NodeWithoutMachine"; held != row.holds || held && len(w.machineNames()) != before {
					t.Errorf("decided %+v with %v, held up: want %t", p, w.machineNames(), row.holds)
				}
			}
			if !row.holds {
				return
			}
			w.view.Nodes = w.view.Nodes[:len(w.view.Nodes)-1]
			if p := w.settle(); p.Reason == "NodeWithoutMachine" || len(w.machineNames()) < 2 {
				t.Errorf("once the Node is gone: %+v with %v", p, w.machineNames())
			}
		})
	}
	w := onEtcdAt(t, 1)
	w.settle()
	w.scale(3)
	w.settle() // of the machines that join one may have any Node
	w.view.Nodes = append(w.view.Nodes, testNode("host-7"))
	if p := w.settle(); p.Reason == "NodeWithoutMachine" {
		t.Errorf("while a machine has no Node yet: %+v", p)
	}
}
