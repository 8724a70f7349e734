package group

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// thing is an object of a provider's kind as it is in a test: its version, generation, labels and whether it is owned.
func thing(version string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "provider.example", Version: "v1", Kind: "Thing"})
	u.SetNamespace("default")
	u.SetName("a")
	u.SetResourceVersion(version)
	u.SetGeneration(1)
	u.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner", UID: "1"}})
	if change != nil {
		change(u)
	}
	return u
}

// watching returns a turn of a group by that name of a controller that watches what its turns read, and the kinds that it began to watch.
func watching(c *Controller, name string, kinds *[]string) *Turn {
	if c.Client == nil {
		c.Client = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()
		c.watched.start = func(of client.Object) error {
			*kinds = append(*kinds, of.GetObjectKind().GroupVersionKind().Kind+of.GetName())
			return nil
		}
	}
	return &Turn{Controller: c, Object: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}}
}

// TestReadChanges: which changes of an object bring about a turn of a group that has read version 1 of it.
func TestReadChanges(t *testing.T) {
	for name, row := range map[string]struct {
		change         func(*unstructured.Unstructured)
		turn, ofStatus bool
	}{
		"only written": {nil, false, true},
		"status":       {func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"phase": "x"} }, false, true},
		"spec":         {func(u *unstructured.Unstructured) { u.SetGeneration(2) }, true, true},
		"labels":       {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, true, true},
		"annotations":  {func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }, true, true},
		"owners":       {func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }, true, true},
		"deletion":     {func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(ptr.To(metav1.Now())) }, true, true},
		"finalizers":   {func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a"}) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for status, want := range map[bool]bool{false: row.turn, true: row.ofStatus} {
				c, kinds := &Controller{}, []string{}
				watching(c, "demo", &kinds).noteRead(thing("1", nil), status)
				passes := c.readChanges().Update(event.UpdateEvent{ObjectOld: thing("1", nil), ObjectNew: thing("2", row.change)})
				if passes != want {
					t.Errorf("the status is read: %v; passes: %v", status, passes)
				}
				if c.readChanges().Update(event.UpdateEvent{ObjectOld: thing("0", row.change), ObjectNew: thing("1", nil)}) {
					t.Error("what was read already brings about a turn")
				}
			}
		})
	}
}

// TestWatched: each kind is watched once; those groups are told that have asked for an object in their last turn, also for one that did not exist.
func TestWatched(t *testing.T) {
	c, kinds := &Controller{}, []string{}
	first, second := watching(c, "first", &kinds), watching(c, "second", &kinds)
	told := func(o client.Object) []string {
		var names []string
		for _, r := range c.ofRead(t.Context(), o) {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return names
	}
	a := thing("1", nil)
	for _, turn := range []*Turn{first, second} {
		turn.noteRead(a, false)
		turn.watched.keep(turn.Key(), turn.reads)
	}
	if !slices.Equal(kinds, []string{"Thing"}) || !slices.Equal(told(a), []string{"first", "second"}) {
		t.Errorf("it watches %v, and tells %v", kinds, told(a))
	}
	created := func(o client.Object) bool { return c.readChanges().Create(event.CreateEvent{Object: o}) }
	if created(a) || !created(thing("2", nil)) {
		t.Error("an object that was read counts as new, or its change before the watch was lost")
	}
	if !c.readChanges().Delete(event.DeleteEvent{Object: a}) {
		t.Error("the end of an object is not told")
	}
	c.watched.keep(first.Key(), nil)
	if !slices.Equal(told(a), []string{"second"}) {
		t.Errorf("it tells %v", told(a))
	}
	c.watched.keep(second.Key(), nil)
	if len(c.watched.readers)+len(c.watched.groups) > 0 || created(thing("2", nil)) {
		t.Errorf("left are %v and %v", c.watched.readers, c.watched.groups)
	}
	second.noteName(watchedObject{a.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(a)}, lastRead{})
	if !created(a) {
		t.Error("nobody is told that what was missing exists")
	}
}

// TestWatchFails: a watch that cannot be started is started with the next read.
func TestWatchFails(t *testing.T) {
	c, kinds := &Controller{}, []string{}
	turn := watching(c, "demo", &kinds)
	start, fails := c.watched.start, true
	c.watched.start = func(of client.Object) error {
		if fails {
			return errors.New("no")
		}
		return start(of)
	}
	turn.noteRead(thing("1", nil), false)
	fails = false
	turn.noteRead(thing("1", nil), false)
	if !slices.Equal(kinds, []string{"Thing"}) {
		t.Errorf("it watches %v", kinds)
	}
}
