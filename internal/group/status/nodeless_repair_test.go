package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

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
		o := observe.NewView(grouptest.Cluster(), []*clusterv1.Machine{grouptest.Machines("a")[0]},
			plan.Observed{Group: plan.Group{Initialized: true}, Cluster: plan.Cluster{Reachable: true}})
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
