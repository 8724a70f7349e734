package group

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetellTime is how long conditions that only say the same in other words may wait to be written: messages of machines that come up change every second, and
// each write of ours makes others look, and write.
const RetellTime = 10 * time.Second

// Told is when the status of a group's own object, of which the name is empty, and of each of its Machines was written last.
type Told map[string]time.Time

// mayWait reports whether a status need not be written yet, and has the next turn come when it must be.
func (t *Turn) mayWait(name string, before, after Object) bool {
	left := t.Memory.Told[name].Add(t.RetellAfter).Sub(t.Facts.Now)
	if left <= 0 || !onlyRetells(before, after) {
		return false
	}
	if t.retell == 0 || left < t.retell {
		t.retell = left
	}
	return true
}

// noteTold remembers that a status was written.
func (t *Turn) noteTold(name string) {
	if t.Memory.Told == nil {
		t.Memory.Told = Told{}
	}
	t.Memory.Told[name] = t.Facts.Now
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
