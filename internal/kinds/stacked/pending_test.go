package stacked

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

func TestTopologyPending(t *testing.T) {
	tests := []struct {
		name                  string
		machines              []string
		version, topology, at string
		want                  string
	}{
		{"no topology", []string{"m1"}, "v1.36.3", "", "", ""},
		{"the same version", []string{"m1"}, "v1.36.3", "v1.36.3", "", ""},
		{"a newer one is on its way", []string{"m1"}, "v1.36.3", "v1.37.0", "",
			"TopologyPending: spec.version is v1.36.3, and the topology of cluster demo brings v1.37.0 next"},
		{"a first machine is made", nil, "v1.36.3", "v1.37.0", "", ""},
		{"a step between has arrived", []string{"m1"}, "v1.36.3", "v1.38.0", "v1.36.3", ""},
		{"the step between is on its way", []string{"m1"}, "v1.36.3", "v1.38.0", "v1.37.0",
			"TopologyPending: spec.version is v1.36.3, and the topology of cluster demo brings v1.37.0 next"},
		{"the last step has arrived, its note not", []string{"m1"}, "v1.36.3", "v1.36.3", "v1.35.4", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kcp, cluster := testKCP(3), testCluster()
			kcp.Spec.Version = test.version
			if test.topology != "" {
				cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "class", test.topology
			}
			if test.at != "" {
				cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: test.at}
			}
			r := begin(kcp, cluster, all(made, test.machines), nil, time.Now()).Facts.Want.Refused
			got := ""
			if r.Reason != "" {
				got = r.Reason + ": " + r.Message
			}
			if got != test.want || r.Replaceable {
				t.Errorf("refused %q (replaceable %t), want %q", got, r.Replaceable, test.want)
			}
		})
	}
}

// TestTopologyGoesFirst: no machine is made of a version that is about to be replaced, but labels follow.
func TestTopologyGoesFirst(t *testing.T) {
	cluster := testCluster()
	w := newWorld(t, cluster, testKCP(1))
	w.settle()
	w.init = true
	w.join("demo-cp-1")
	w.forgetEtcd()
	w.settle()
	cluster = &clusterv1.Cluster{}
	if err := w.client.Get(context.Background(), clusterKey, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "class", "v1.37.0"
	if err := w.client.Update(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	w.scale(3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"note": "yes"}
	})
	if p := w.settle(); len(w.machineNames()) > 1 || p.Reason != "TopologyPending" {
		t.Errorf("machines are %v: %+v", w.machineNames(), p)
	}
	if got := w.machine("demo-cp-1").Labels["note"]; got != "yes" {
		t.Errorf("its label is %q meanwhile", got)
	}
}

func TestUpdating(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		condition   *metav1.Condition
		want        string
	}{
		{"nothing", nil, nil, ""},
		{"just begun", map[string]string{clusterv1.UpdateInProgressAnnotation: ""}, nil, "an in-place update is in progress"},
		{"the extension is asked", map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "UpdateMachine"},
			&metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Message: "ext: installing\nkubelet"},
			"ext: installing; kubelet"},
		{"about to end", map[string]string{runtimev1.PendingHooksAnnotation: "Other,UpdateMachine"}, nil, "an in-place update is in progress"},
		{"another hook", map[string]string{runtimev1.PendingHooksAnnotation: "Other"}, nil, ""},
		{"an old condition", map[string]string{clusterv1.UpdateInProgressAnnotation: ""},
			&metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionFalse, Message: "x"},
			"an in-place update is in progress"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := made("m1")
			m.Annotations = test.annotations
			if test.condition != nil {
				m.Status.Conditions = []metav1.Condition{*test.condition}
			}
			if got := machine.Updating(m); got != test.want {
				t.Errorf("updating: %q, want %q", got, test.want)
			}
			s := begin(testKCP(3), testCluster(), []*clusterv1.Machine{m}, nil, time.Now())
			s.See(s.Inside)
			if got := s.Facts.Machines[0].Updating; got != test.want {
				t.Errorf("the facts say %q, want %q", got, test.want)
			}
		})
	}
}
