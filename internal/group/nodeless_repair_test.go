package group

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestHealthCheckOfMembers: machines without Nodes are looked at by what their members say, and never for a Node that there will never
// be. To Cluster API all of them are unhealthy, so that a limit there would never let one be replaced.
func TestHealthCheckOfMembers(t *testing.T) {
	object := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd", UID: "etcd"}}
	turn := &Writer{Observer: &Observer{View: &View{
		Type:    nodelessType,
		Cluster: testCluster(),
		Object:  object,
		Spec:    Spec{Replicas: ptr.To(int32(3)), HoldsQuorum: true, HealthCheck: &HealthCheck{UnhealthySeconds: ptr.To(int32(7))}},
	}}}
	turn.Nodeless = true
	check := turn.desiredHealthCheck()
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
	want := map[metav1.ConditionStatus]int32{metav1.ConditionFalse: 7, metav1.ConditionUnknown: nodeStartupSeconds}
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
	if check := turn.desiredHealthCheck(); check != nil {
		t.Errorf("the only member would be replaced: %+v", check.Spec)
	}
}

// TestMemberConditionWithoutNode: a machine that boots is not taken for one whose member is silent.
func TestMemberConditionWithoutNode(t *testing.T) {
	for _, test := range []struct {
		member *plan.Member
		want   metav1.ConditionStatus
	}{
		{nil, metav1.ConditionUnknown},
		{&plan.Member{ID: "1", Name: "a", Machine: "a", Learner: true, Health: plan.Healthy}, metav1.ConditionUnknown},
		{&plan.Member{ID: "1", Name: "a", Machine: "a", Health: plan.Unhealthy}, metav1.ConditionFalse},
		{&plan.Member{ID: "1", Name: "a", Machine: "a", Health: plan.Healthy}, metav1.ConditionTrue},
	} {
		o := NewView(testCluster(), []*clusterv1.Machine{named("a")[0]}, plan.Observed{Group: plan.Group{Initialized: true}, Cluster: plan.Cluster{Reachable: true}})
		o.Nodeless, o.Facts.Etcd = true, plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true}
		if test.member != nil {
			o.Facts.Etcd.Members = []plan.Member{*test.member}
		}
		turn := Report{View: o}
		turn.Facts.AddMembersAsHosts()
		turn.Assessed = plan.Assess(turn.Facts)
		if got := turn.memberCondition(o.Machines[0]); got.Status != test.want {
			t.Errorf("with member %+v: %+v", test.member, got)
		}
	}
}
