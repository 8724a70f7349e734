package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Silence is how long a workload cluster may be out of reach before what was
// last known of it is no longer reported: a restart of its only API server is no news.
const Silence = 30 * time.Second

// isFresh reports whether something was first looked at, or lost, only a moment ago.
func (t Report) isFresh(since time.Time) bool { return t.Facts.Now.Sub(since) < Silence }

// keeps reports whether a condition that comes from the workload cluster stays as it was last
// reported. Then the cluster is out of reach, and only for a moment, or the process has
// just started and has not seen it yet. What was never told is told.
func (t Report) keeps(kind string, of conditions.Getter) bool {
	o := t.Facts
	if !o.Group.Initialized || !conditions.Has(of, kind) {
		return false
	}
	if !o.Cluster.Reachable && (t.isFresh(t.Inside.Since) || t.isFresh(t.Memory.Began)) {
		return true
	}
	return ofEtcd[kind] && o.Etcd.Ours() && !o.Etcd.Known && t.isFresh(t.Memory.Began)
}

// ofEtcd are the conditions that need etcd's members.
var ofEtcd = map[string]bool{
	upstream.KubeadmControlPlaneAvailableCondition:                true,
	upstream.KubeadmControlPlaneEtcdClusterHealthyCondition:       true,
	upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition: true,
}

// unless returns the conditions without those that stay as they were last told of an object.
func (t Report) unless(of conditions.Getter, all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(all, func(c metav1.Condition) bool { return t.keeps(c.Type, of) })
}

// Conditions returns the conditions of the control plane for what was seen
// and decided. machines carry their own conditions already.
func (t Report) Conditions(d plan.Decision, failure error) []metav1.Condition {
	all := []metav1.Condition{
		t.initializedCondition(),
		t.scalingUp(d),
		t.scalingDown(d),
		t.rollingOut(),
		t.remediating(),
		t.deleting(d, failure),
		t.aggregate(clusterv1.MachineReadyCondition, upstream.KubeadmControlPlaneMachinesReadyCondition,
			upstream.KubeadmControlPlaneMachinesNotReadyReason, upstream.KubeadmControlPlaneMachinesReadyUnknownReason,
			upstream.KubeadmControlPlaneMachinesReadyReason, upstream.KubeadmControlPlaneMachinesReadyNoReplicasReason),
		t.aggregate(clusterv1.MachineUpToDateCondition, upstream.KubeadmControlPlaneMachinesUpToDateCondition,
			upstream.KubeadmControlPlaneMachinesNotUpToDateReason, upstream.KubeadmControlPlaneMachinesUpToDateUnknownReason,
			upstream.KubeadmControlPlaneMachinesUpToDateReason, upstream.KubeadmControlPlaneMachinesUpToDateNoReplicasReason),
	}
	if own := t.Kind.Reports().Conditions; own != nil {
		all = append(all, own(t.View)...)
	}
	all = append(append(all, t.externalEtcdCondition()...), t.hibernated(d)...)
	remote := []metav1.Condition{t.available()}
	if !t.Nodeless {
		remote = append(append(remote, t.components()), t.addonsCondition()...)
	}
	if t.Facts.Etcd.Ours() {
		remote = append(append(remote, t.etcdHealthy()), comparison{t}.condition()...)
	}
	return append(all, t.unless(t.Object, remote)...)
}

func (t Report) paused() metav1.Condition {
	if t.Facts.Group.Paused {
		return observe.Condition(clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason,
			"The Cluster's spec.paused or the annotation "+clusterv1.PausedAnnotation+" is set")
	}
	return observe.Condition(clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason, "")
}

func (t Report) initializedCondition() metav1.Condition {
	if t.Facts.Group.Initialized {
		return observe.Condition(upstream.KubeadmControlPlaneInitializedCondition, metav1.ConditionTrue,
			upstream.KubeadmControlPlaneInitializedReason, "")
	}
	return observe.Condition(upstream.KubeadmControlPlaneInitializedCondition, metav1.ConditionFalse,
		upstream.KubeadmControlPlaneNotInitializedReason, "")
}

// wanted is how many machines are wanted.
func (t Report) wanted() int {
	if p := t.Facts.Power; t.Facts.Group.Deleting || p.Backup != "" || p.Hibernate && len(t.Machines) == 0 {
		return 0
	}
	return t.Facts.Want.Replicas
}

func (t Report) scalingUp(d plan.Decision) metav1.Condition {
	kind := upstream.KubeadmControlPlaneScalingUpCondition
	have, want := len(t.Machines), t.wanted()
	switch {
	case t.Spec.Replicas == nil:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneScalingUpWaitingForReplicasSetReason,
			"spec.replicas is not set")
	case have < want:
		return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneScalingUpReason, scaling("up", have, want, d))
	}
	message := ""
	if text := t.Facts.Cluster.Template; text != "" {
		message = "No machine could be added: " + text
	}
	return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotScalingUpReason, message)
}

func (t Report) scalingDown(d plan.Decision) metav1.Condition {
	kind := upstream.KubeadmControlPlaneScalingDownCondition
	have, want := len(t.Machines), t.wanted()
	switch {
	case t.Spec.Replicas == nil:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneScalingDownWaitingForReplicasSetReason,
			"spec.replicas is not set")
	case have <= want:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotScalingDownReason, "")
	}
	return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneScalingDownReason,
		withLate(scaling("down", have, want, d), machine.LateDeletions(t.Objects(), t.Facts.Now)))
}

// withLate adds to a message, as a line of its own, what takes too long.
func withLate(message, late string) string {
	if late == "" {
		return message
	}
	return message + "\n* " + late
}

// scaling says from how many machines to how many, and what that waits for.
func scaling(direction string, have, want int, d plan.Decision) string {
	text := fmt.Sprintf("Scaling %s from %d to %d replicas", direction, have, want)
	if d.Step.Verb == plan.Wait {
		text += " waits:\n* " + d.Message
	}
	return text
}

// remediating says which machines are to be replaced because they broke.
func (t Report) remediating() metav1.Condition {
	if texts := t.repairs(); len(texts) > 0 {
		return observe.Condition(upstream.KubeadmControlPlaneRemediatingCondition, metav1.ConditionTrue,
			upstream.KubeadmControlPlaneRemediatingReason, strings.Join(texts, "\n"))
	}
	return observe.Condition(upstream.KubeadmControlPlaneRemediatingCondition, metav1.ConditionFalse,
		upstream.KubeadmControlPlaneNotRemediatingReason, "")
}

// rollingOut says how many machines are not as the spec wants them. Where all are, it says which requests replace no machine.
func (t Report) rollingOut() metav1.Condition {
	var texts []string
	n := 0
	for _, m := range t.Machines {
		if c := conditions.Get(m.Machine, clusterv1.MachineUpToDateCondition); c != nil && c.Status == metav1.ConditionFalse {
			n++
			texts = append(texts, "* "+m.Name+": "+c.Message)
		}
	}
	if n == 0 {
		return observe.Condition(upstream.KubeadmControlPlaneRollingOutCondition, metav1.ConditionFalse,
			upstream.KubeadmControlPlaneNotRollingOutReason, observe.NotAsked(t.View))
	}
	return observe.Condition(upstream.KubeadmControlPlaneRollingOutCondition, metav1.ConditionTrue,
		upstream.KubeadmControlPlaneRollingOutReason,
		fmt.Sprintf("%d of %d machines are not up to date:\n%s", n, len(t.Machines), observe.Entries(texts, "\n", observe.LongestCondition-100)))
}

// deleting says what the deletion of the control plane waits for. failure is how the step of this
// turn failed, if it did.
func (t Report) deleting(d plan.Decision, failure error) metav1.Condition {
	kind := upstream.KubeadmControlPlaneDeletingCondition
	switch o := t.Facts; {
	case !o.Group.Deleting:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotDeletingReason, "")
	case failure != nil:
		return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneDeletingInternalErrorReason,
			d.Message+"; the last try failed: "+failure.Error())
	case len(o.Workers) > 0:
		return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneDeletingWaitingForWorkersDeletionReason, d.Message)
	case len(o.Machines) > 0:
		return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneDeletingWaitingForMachineDeletionReason,
			withLate(d.Message, machine.LateDeletions(t.Objects(), t.Facts.Now)))
	}
	return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneDeletingDeletionCompletedReason, d.Message)
}

// aggregate sums one condition of the machines up, as all of Cluster API does.
func (t Report) aggregate(from, to, issue, unknown, good, none string) metav1.Condition {
	if len(t.Machines) == 0 {
		return observe.Condition(to, metav1.ConditionTrue, none, "")
	}
	sum, err := conditions.NewAggregateCondition(t.Objects(), from, conditions.TargetConditionType(to),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
			conditions.ComputeReasonFunc(conditions.GetDefaultComputeMergeReasonFunc(issue, unknown, good)),
		)})
	if err != nil {
		return observe.Condition(to, metav1.ConditionUnknown, clusterv1.InternalErrorReason, err.Error())
	}
	return *sum
}

// components says which control plane components are not healthy, and where.
func (t Report) components() metav1.Condition {
	kind := upstream.KubeadmControlPlaneControlPlaneComponentsHealthyCondition
	o := t.Facts
	switch {
	case !o.Group.Initialized:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason,
			"The control plane is not initialized yet")
	case !o.Cluster.Reachable:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsConnectionDownReason,
			o.Cluster.Unreachable)
	}
	var found observe.Ailments
	for _, m := range t.Machines {
		if !m.MayServe() {
			continue
		}
		for _, c := range m.Facts.Components {
			found.Add(c.Health, "%s: %s: %s", m.Name, c.Name, cmp.Or(c.Why, "not known"))
		}
	}
	for _, node := range t.StrayNodes() {
		found.Add(plan.Unhealthy, "Control plane Node %s has no Machine", node.Name)
	}
	return found.Condition(kind)
}

// available reports whether the control plane serves: initialised, with its
// certificates, a quorum of etcd, and one machine on which everything runs.
func (t Report) available() metav1.Condition {
	kind := upstream.KubeadmControlPlaneAvailableCondition
	o := t.Facts
	switch {
	case !o.Group.Initialized:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotAvailableReason,
			"The control plane is not initialized yet")
	case o.Group.Deleting:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotAvailableReason,
			"The control plane is being deleted")
	case !o.Cluster.Reachable:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneAvailableInspectionFailedReason,
			"The API server does not answer: "+o.Cluster.Unreachable)
	case o.Etcd.Ours() && !o.Etcd.Known:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneAvailableInspectionFailedReason,
			"The members of etcd are not known: "+o.Etcd.Why)
	}
	lacks, remarks := t.shortfalls()
	if len(lacks) > 0 {
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneNotAvailableReason,
			strings.Join(append(lacks, remarks...), "\n"))
	}
	return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneAvailableReason, strings.Join(remarks, "\n"))
}

// shortfalls says what the control plane lacks to serve, and of what it has less than it should, though enough to serve.
func (t Report) shortfalls() (lacks, remarks []string) {
	for _, text := range t.Lacking {
		lacks = append(lacks, "* "+text)
	}
	if t.Facts.Etcd.Ours() {
		votes := t.credited()
		text := fmt.Sprintf("* %d of %d etcd voters healthy, %d needed", votes.Healthy, votes.Voters, votes.Needed())
		if votes.Spare() < 0 {
			lacks = append(lacks, text)
		} else if votes.Healthy < votes.Voters {
			remarks = append(remarks, text)
		}
	}
	switch healthy := t.healthy(); {
	case t.Nodeless:
	case healthy == 0:
		lacks = append(lacks, "* no machine has all control plane components healthy")
	case healthy < len(t.Facts.Machines):
		remarks = append(remarks, fmt.Sprintf("* %d of %d machines have all control plane components healthy", healthy, len(t.Facts.Machines)))
	}
	return lacks, remarks
}

// healthy returns on how many machines, whether they stay or leave, everything is healthy. An API
// server is no better than the etcd beside it.
func (t Report) healthy() int {
	n := 0
	for _, m := range t.Assessed.Machines {
		if m.Health == plan.Healthy {
			n++
		}
	}
	return n
}
