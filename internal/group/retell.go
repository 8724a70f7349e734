package group

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/quorate/quorate/internal/group/observe"
)

// RetellTime is how long conditions that only say the same in other words may wait to be written. Messages of machines that come up change
// every second, and each write of ours makes others look, and write.
const RetellTime = 10 * time.Second

// restampTimes is how many times as long as that conditions may wait of which nothing is new but the generation that they were seen at.
// Each Machine gets two new ones while it comes up, when its bootstrap data and its host are known.
const restampTimes = 6

// Told is how the status of a group's own object, of which the name is empty, and of each of its Machines was told last.
type Told map[string]telling

// telling is when a status was written, or else a step was done that reports all that is known of a Machine for a moment.
type telling struct {
	at   time.Time
	step bool
}

// mayWait reports whether a status need not be written yet, and has the next turn come when it must be.
func (t *Turn) mayWait(name string, before, after observe.Object) bool {
	last, most := t.past.told[name], t.RetellAfter
	switch {
	case differsIn(before, after, restamps):
		most *= restampTimes
	case last.step && passes(before) || differsIn(before, after, retells):
	default:
		return false
	}
	left := last.at.Add(most).Sub(t.Facts.Now)
	if left <= 0 {
		return false
	}
	if t.retell == 0 || left < t.retell {
		t.retell = left
	}
	return true
}

// passes reports whether a Machine has no node yet, or goes: what its conditions say just after it was made, deleted or released is said
// otherwise in a moment, or it is gone.
func passes(o observe.Object) bool {
	m, is := o.(*clusterv1.Machine)
	return is && (!m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero())
}

// noteTold remembers that a status was written.
func (t *Turn) noteTold(name string) { t.tell(name, telling{at: t.Facts.Now}) }

// noteStep remembers that a Machine was made, deleted or released.
func (t *Turn) noteStep(machine string) { t.tell(machine, telling{at: t.Facts.Now, step: true}) }

func (t *Turn) tell(name string, as telling) {
	if t.past.told == nil {
		t.past.told = Told{}
	}
	t.past.told[name] = as
}

// forgetTold forgets Machines that are gone. One that the cache does not show yet may just have been made.
func (t *Turn) forgetTold() {
	maps.DeleteFunc(t.past.told, func(name string, last telling) bool {
		return name != "" && t.Machine(name) == nil && t.Facts.Now.Sub(last.at) >= t.RetellAfter
	})
}

// retells reports whether a condition says the same as before, in other words perhaps, or of another generation. Whether machines are not
// ready, or not yet known to be, changes with each of Cluster API's controllers that comes to look at a new one.
func retells(was, is metav1.Condition) bool {
	if is.Type == upstream.KubeadmControlPlaneMachinesReadyCondition && was.Status != metav1.ConditionTrue &&
		is.Status != metav1.ConditionTrue {
		return true
	}
	return was.Status == is.Status && was.Reason == is.Reason
}

// restamps reports whether nothing of a condition is new but the generation that it was seen at.
func restamps(was, is metav1.Condition) bool {
	was.ObservedGeneration = is.ObservedGeneration
	return equality.Semantic.DeepEqual(was, is)
}

// isMachine reports whether an object is a Machine, whose conditions of v1beta1 others write.
func isMachine(o observe.Object) bool {
	_, is := o.(*clusterv1.Machine)
	return is
}

// differsIn reports whether two states of an object differ in nothing but conditions, and in these only so far.
func differsIn(before, after observe.Object, only func(was, is metav1.Condition) bool) bool {
	was, is := before.GetConditions(), after.GetConditions()
	other := func(c metav1.Condition) bool {
		return !slices.ContainsFunc(was, func(o metav1.Condition) bool { return o.Type == c.Type && only(o, c) })
	}
	if len(was) != len(is) || slices.ContainsFunc(is, other) {
		return false
	}
	as := before.DeepCopyObject().(observe.Object)
	as.SetConditions(is)
	// Those of v1beta1 of a group follow from these, and say nothing of their own.
	if old, has := as.(v1beta1conditions.Setter); has && !isMachine(after) {
		if now, has := after.(v1beta1conditions.Getter); has {
			old.SetV1Beta1Conditions(now.GetV1Beta1Conditions())
		}
	}
	return equality.Semantic.DeepEqual(as, after)
}
