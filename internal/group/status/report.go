package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// describe writes what was seen and decided into an object's status.
func (t Report) describe(object observe.Object, d plan.Decision, failure error) {
	conditions.Set(object, t.paused())
	to := t.Kind.Status(object)
	*to.Plan = PlanStatus(d, failure)
	if t.Facts.Group.Paused {
		return // others may be moving the object
	}
	for _, c := range t.Conditions(d, failure) {
		conditions.Set(object, c)
	}
	t.forgetConditions(object)
	*to.ObservedGeneration = object.GetGeneration()
	*to.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: machine.Labels(t.Cluster.Name)})
	if t.Facts.Group.Initialized {
		*to.Initialized = ptr.To(true)
	}
	*to.Versions = machine.Versions(t.Objects())
	*to.Version = ""
	if len(*to.Versions) > 0 {
		*to.Version = (*to.Versions)[0].Version
	}
	*to.Replicas = ptr.To(int32(len(t.Machines)))
	*to.ReadyReplicas = t.count(clusterv1.MachineReadyCondition)
	*to.AvailableReplicas = t.count(clusterv1.MachineAvailableCondition)
	*to.UpToDateReplicas = t.count(clusterv1.MachineUpToDateCondition)
	if to.Certificates != nil {
		t.describeCertificates(to.Certificates)
	}
	t.Kind.Reports().Describe(t.View, object)
}

// count returns how many machines have a condition that is true.
func (t Report) count(kind string) *int32 {
	n := int32(0)
	for _, m := range t.Objects() {
		if conditions.IsTrue(m, kind) {
			n++
		}
	}
	return &n
}
