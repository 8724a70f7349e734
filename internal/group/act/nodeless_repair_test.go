package act

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestHealthCheckOfMembers: machines without Nodes are looked at by what their members say, and never for a Node that there will never
// be. To Cluster API all of them are unhealthy, so that a limit there would never let one be replaced.
func TestHealthCheckOfMembers(t *testing.T) {
	object := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd", UID: "etcd"}}
	turn := &Writer{Observer: &observe.Observer{View: &observe.View{
		Type:    nodelessType,
		Cluster: grouptest.Cluster(),
		Object:  object,
		Spec: observe.Spec{Replicas: ptr.To(int32(3)), HoldsQuorum: true,
			HealthCheck: &observe.HealthCheck{UnhealthySeconds: ptr.To(int32(7))}},
	}}}
	turn.Nodeless = true
	check := upkeep{turn}.desiredHealthCheck()
	if check == nil {
		t.Fatal("there is none")
	}
	if got := check.Spec.Selector.MatchLabels; got[etcdclusterv1alpha1.MachineLabel] != "demo-etcd" || len(got) != 2 {
		t.Errorf("it selects %v", got)
	}
	checks := check.Spec.Checks
	if ptr.Deref(checks.NodeStartupTimeoutSeconds, -1) != 0 || len(checks.UnhealthyNodeConditions) > 0 {
		t.Errorf("it waits for Nodes: %+v", checks)
	}
	want := map[metav1.ConditionStatus]int32{metav1.ConditionFalse: 7, metav1.ConditionUnknown: observe.NodeStartupSeconds}
	for _, c := range checks.UnhealthyMachineConditions {
		if c.Type != upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition || ptr.Deref(c.TimeoutSeconds, 0) != want[c.Status] {
			t.Errorf("it looks at %+v", c)
		}
		delete(want, c.Status)
	}
	if len(want) > 0 || check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo != nil {
		t.Errorf("it lacks %v, with the limit %v", want, check.Spec.Remediation.TriggerIf)
	}
	turn.Spec.Replicas = ptr.To(int32(1))
	if check := (upkeep{turn}).desiredHealthCheck(); check != nil {
		t.Errorf("the only member would be replaced: %+v", check.Spec)
	}
}
