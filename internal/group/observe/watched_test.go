package observe

import (
	"context"
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/group/grouptest"
)

// watching returns a turn of a group by that name of a controller that watches what its turns read, and the kinds that it began to watch.
func watching(w *Watched, name string, kinds *[]string) *Observer {
	if w.start == nil {
		w.Start(runtime.NewScheme(), func(of client.Object) error {
			*kinds = append(*kinds, of.GetObjectKind().GroupVersionKind().Kind+of.GetName())
			return nil
		})
	}
	return &Observer{Sources: Sources{Watched: w, Scheme: w.scheme},
		View: &View{Object: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}}}
}

// noteThing has a turn read an object as it is.
func noteThing(turn *Observer, o *unstructured.Unstructured, status bool) {
	name := watchedObject{o.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(o)}
	turn.noteAsked(name, status)
	turn.noteRead(o, o.GroupVersionKind(), name, lastRead{o.GetResourceVersion(), status})
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
				w, kinds := &Watched{}, []string{}
				noteThing(watching(w, "demo", &kinds), grouptest.Thing("1", nil), status)
				passes := w.Changes().Update(event.UpdateEvent{ObjectOld: grouptest.Thing("1", nil), ObjectNew: grouptest.Thing("2", row.change)})
				if passes != want {
					t.Errorf("the status is read: %v; passes: %v", status, passes)
				}
				if w.Changes().Update(event.UpdateEvent{ObjectOld: grouptest.Thing("0", row.change), ObjectNew: grouptest.Thing("1", nil)}) {
					t.Error("what was read already brings about a turn")
				}
			}
		})
	}
}

// TestWatched: each kind is watched once; those groups are told that have asked for an object in their last turn, also for one that did not
// exist.
func TestWatched(t *testing.T) {
	w, kinds := &Watched{}, []string{}
	first, second := watching(w, "first", &kinds), watching(w, "second", &kinds)
	told := func(o client.Object) []string {
		var names []string
		for _, r := range w.Requests(t.Context(), o) {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return names
	}
	a := grouptest.Thing("1", nil)
	for _, turn := range []*Observer{first, second} {
		noteThing(turn, a, false)
		turn.Watched.Keep(turn.Key(), turn.reads)
	}
	if !slices.Equal(kinds, []string{"Thing"}) || !slices.Equal(told(a), []string{"first", "second"}) {
		t.Errorf("it watches %v, and tells %v", kinds, told(a))
	}
	created := func(o client.Object) bool { return w.Changes().Create(event.CreateEvent{Object: o}) }
	if created(a) || !created(grouptest.Thing("2", nil)) {
		t.Error("an object that was read counts as new, or its change before the watch was lost")
	}
	if !w.Changes().Delete(event.DeleteEvent{Object: a}) {
		t.Error("the end of an object is not told")
	}
	w.Keep(first.Key(), nil)
	if !slices.Equal(told(a), []string{"second"}) {
		t.Errorf("it tells %v", told(a))
	}
	w.Keep(second.Key(), nil)
	if len(w.readers)+len(w.groups) > 0 || created(grouptest.Thing("2", nil)) {
		t.Errorf("left are %v and %v", w.readers, w.groups)
	}
	second.noteAsked(watchedObject{a.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(a)}, false)
	if !created(a) {
		t.Error("no group is told that the missing object exists")
	}
}

// TestWatchFails: a watch that cannot be started is started with the next read.
func TestWatchFails(t *testing.T) {
	w, kinds := &Watched{}, []string{}
	turn := watching(w, "demo", &kinds)
	start, fails := w.start, true
	w.start = func(of client.Object) error {
		if fails {
			return errors.New("no")
		}
		return start(of)
	}
	noteThing(turn, grouptest.Thing("1", nil), false)
	fails = false
	noteThing(turn, grouptest.Thing("1", nil), false)
	if !slices.Equal(kinds, []string{"Thing"}) {
		t.Errorf("it watches %v", kinds)
	}
}

// withThings makes the controller's client know the kind Thing, by its definition, and the objects. Meanwhile is called
// after an object was read, before the reader has the answer.
func withThings(t *testing.T, turn *Observer, meanwhile func(client.Object), objects ...client.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(grouptest.Thing("", nil).GroupVersionKind(), &unstructured.Unstructured{})
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "things.provider.example", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"},
	}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, definition)...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			err := from.Get(ctx, key, into, options...)
			meanwhile(into)
			return err
		},
	}).Build()
	turn.Cache, turn.Scheme, turn.Watched.scheme = c, scheme, scheme
}

// reads are the two ways by which a turn reads object a.
var reads = map[string]func(context.Context, *Observer) error{
	"Find": func(ctx context.Context, turn *Observer) error {
		_, err := turn.Find(ctx, machine.InfrastructureRef, clusterv1.ContractVersionedObjectReference{APIGroup: "provider.example",
			Kind: "Thing", Name: "a"})
		return err
	},
	"GetPart": func(ctx context.Context, turn *Observer) error {
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(grouptest.Thing("", nil).GroupVersionKind())
		return client.IgnoreNotFound(turn.GetPart(ctx, "a", empty))
	},
}

// TestMissingIsWatched: a kind is watched from the first look on, also where the object does not exist, so that its
// creation brings about a turn.
func TestMissingIsWatched(t *testing.T) {
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			w, kinds := &Watched{}, []string{}
			turn := watching(w, "demo", &kinds)
			withThings(t, turn, func(client.Object) {})
			if err := read(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(kinds, []string{"Thing"}) {
				t.Errorf("it watches %v", kinds)
			}
			if !w.Changes().Create(event.CreateEvent{Object: grouptest.Thing("1", nil)}) {
				t.Error("the creation of what was missing brings about no turn")
			}
		})
	}
}

// TestChangeDuringRead: a change that the cache reports between the first read of an object and its return brings about a turn.
func TestChangeDuringRead(t *testing.T) {
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			w, kinds, passes := &Watched{}, []string{}, false
			turn := watching(w, "demo", &kinds)
			withThings(t, turn, func(o client.Object) {
				changed := grouptest.Thing("1000", func(u *unstructured.Unstructured) { u.SetGeneration(2) })
				passes = o.GetName() == "a" && w.Changes().Update(event.UpdateEvent{ObjectOld: grouptest.Thing("1", nil), ObjectNew: changed}) &&
					len(w.Requests(t.Context(), changed)) == 1
			}, grouptest.Thing("", nil))
			if err := read(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if !passes {
				t.Error("a change while the object was read brings about no turn")
			}
			found := grouptest.Thing("", nil)
			if err := turn.Cache.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
				t.Fatal(err)
			}
			if w.Changes().Create(event.CreateEvent{Object: found}) {
				t.Error("what was read already brings about a turn")
			}
		})
	}
}
