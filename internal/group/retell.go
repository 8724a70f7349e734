package group

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RetellTime is how long conditions that only say the same in other words may wait to be written: messages of machines that come up change every second, and
// each write of ours makes others look, and write.
const RetellTime = 10 * time.Second

// Told is how the status of a group's own object, of which the name is empty, and of each of its Machines was told last.
type Told map[string]telling

// telling is when a status was written, or else a step was done that tells all that there is to say of a Machine for a moment.
type telling struct {
	at   time.Time
	step bool
}

// mayWait reports whether a status need not be written yet, and has the next turn come when it must be.
func (t *Turn) mayWait(name string, before, after Object) bool {
	last := t.Memory.Told[name]
	left := last.at.Add(t.RetellAfter).Sub(t.Facts.Now)
	unneeded := last.step && passes(before) || onlyRetells(before, after)
	if left <= 0 || !unneeded {
		return false
	}
	if t.retell == 0 || left < t.retell {
		t.retell = left
	}
	return true
}

// passes reports whether a Machine has no node yet, or goes: what its conditions say just after it was made, deleted or released is said
// otherwise in a moment, or it is gone.
func passes(o Object) bool {
	m, is := o.(*clusterv1.Machine)
	return is && (!m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero())
}

// noteTold remembers that a status was written.
func (t *Turn) noteTold(name string) { t.tell(name, telling{at: t.Facts.Now}) }

// noteStep remembers that a Machine was made, deleted or released.
func (t *Turn) noteStep(machine string) { t.tell(machine, telling{at: t.Facts.Now, step: true}) }

func (t *Turn) tell(name string, as telling) {
	if t.Memory.Told == nil {
		t.Memory.Told = Told{}
	}
	t.Memory.Told[name] = as
}

// forgetTold forgets Machines that are gone. One that the cache does not show yet may just have been made.
func (t *Turn) forgetTold() {
	maps.DeleteFunc(t.Memory.Told, func(name string, last telling) bool {
		return name != "" && t.Machine(name) == nil && t.Facts.Now.Sub(last.at) >= t.RetellAfter
	})
}

// onlyRetells reports whether two states of an object differ in nothing but what the messages of its conditions say, and which generation they are of.
func onlyRetells(before, after Object) bool {
	was, is := before.GetConditions(), after.GetConditions()
	other := func(c metav1.Condition) bool {
		return !slices.ContainsFunc(was, func(o metav1.Condition) bool { return o.Type == c.Type && o.Status == c.Status && o.Reason == c.Reason })
	}
	if len(was) != len(is) || slices.ContainsFunc(is, other) {
		return false
	}
	as := before.DeepCopyObject().(Object)
	as.SetConditions(is)
	return equality.Semantic.DeepEqual(as, after)
}
