package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Watched are the objects that groups read because a field names them: templates, and what machines consist of. Their kinds are known only
// when they are read. The cache holds each kind from then on, so that watching it costs no request. The zero value watches nothing.
type Watched struct {
	// scheme knows the kinds. start has a change of an object of a kind bring about turns, by requests; nil: nothing is watched.
	scheme *runtime.Scheme
	start  func(of client.Object) error

	mu      sync.Mutex
	kinds   map[watchedKind]bool
	readers map[watchedObject]map[client.ObjectKey]lastRead
	// groups are the same the other way round.
	groups map[client.ObjectKey]map[watchedObject]bool
}

// watchedKind is a kind as the cache holds it: objects without a Go type are held by themselves.
type watchedKind struct {
	schema.GroupVersionKind
	untyped bool
}

// watchedObject names an object. The version of its kind may change.
type watchedObject struct {
	schema.GroupKind
	client.ObjectKey
}

// lastRead is how a group has read an object.
type lastRead struct {
	// version is the resource version that it had; empty: it did not exist.
	version string
	// status: the status was read too.
	status bool
}

// noting reads objects for a turn. A change of each brings about another turn, also of one that does not exist yet, and
// also where it changes meanwhile.
type noting struct {
	client.Reader
	turn *Observer
	// status: the status is read too.
	status bool
}

// Get implements client.Reader.
func (n noting) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, definition := into.(*metav1.PartialObjectMetadata); definition || n.turn.Watched == nil || n.turn.Watched.start == nil {
		return n.Reader.Get(ctx, key, into, options...)
	}
	gvk, err := apiutil.GVKForObject(into, n.turn.Scheme)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key.Name, err)
	}
	name := watchedObject{gvk.GroupKind(), key}
	n.turn.noteAsked(name, n.status)
	err = n.Reader.Get(ctx, key, into, options...)
	switch {
	case apierrors.IsNotFound(err):
		n.turn.noteRead(into, gvk, name, lastRead{status: n.status})
	case err == nil:
		n.turn.noteRead(into, gvk, name, lastRead{into.GetResourceVersion(), n.status})
	}
	return err
}

// noteAsked remembers that the group is about to read an object: a change may be reported before the answer is there. What
// is known of an earlier read stays.
func (t *Observer) noteAsked(name watchedObject, status bool) {
	if t.reads == nil {
		t.reads = map[watchedObject]bool{}
	}
	t.reads[name] = true
	t.Watched.expect(t.Key(), name, lastRead{status: status})
}

// noteRead remembers how the group has read an object, or that there is none, and has its kind watched.
func (t *Observer) noteRead(of client.Object, gvk schema.GroupVersionKind, name watchedObject, read lastRead) {
	t.Watched.note(t.Key(), name, read)
	if err := t.Watched.watch(of, gvk); err != nil {
		ctrl.Log.WithName("watch").Error(err, "Changes are noticed late", "kind", gvk.String())
	}
}

// Start has the kinds of the objects that are read watched: by start, which has a change of an object bring about the turns that Requests
// names.
func (w *Watched) Start(scheme *runtime.Scheme, start func(of client.Object) error) {
	w.scheme, w.start = scheme, start
}

// watch starts to watch the kind of an object, once.
func (w *Watched) watch(of client.Object, gvk schema.GroupVersionKind) error {
	_, untyped := of.(*unstructured.Unstructured)
	kind := watchedKind{gvk, untyped}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kinds[kind] {
		return nil
	}
	sample := of.DeepCopyObject().(client.Object)
	if untyped {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		sample = u
	}
	if err := w.start(sample); err != nil {
		return err
	}
	if w.kinds == nil {
		w.kinds = map[watchedKind]bool{}
	}
	w.kinds[kind] = true
	return nil
}

// expect remembers that a group is about to read an object, unless it has read it before.
func (w *Watched) expect(group client.ObjectKey, name watchedObject, read lastRead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, before := w.readers[name][group]; !before {
		w.set(group, name, read)
	}
}

// note remembers how a group has read an object.
func (w *Watched) note(group client.ObjectKey, name watchedObject, read lastRead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(group, name, read)
}

// set is note, while the lock is held.
func (w *Watched) set(group client.ObjectKey, name watchedObject, read lastRead) {
	if w.readers == nil {
		w.readers = map[watchedObject]map[client.ObjectKey]lastRead{}
		w.groups = map[client.ObjectKey]map[watchedObject]bool{}
	}
	if w.groups[group] == nil {
		w.groups[group] = map[watchedObject]bool{}
	}
	w.groups[group][name] = true
	if w.readers[name] == nil {
		w.readers[name] = map[client.ObjectKey]lastRead{}
	}
	w.readers[name][group] = read
}

// Keep drops the objects that a group does not read any more.
func (w *Watched) Keep(group client.ObjectKey, names map[watchedObject]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.groups[group] {
		if names[name] {
			continue
		}
		delete(w.groups[group], name)
		if delete(w.readers[name], group); len(w.readers[name]) == 0 {
			delete(w.readers, name)
		}
	}
	if len(w.groups[group]) == 0 {
		delete(w.groups, group)
	}
}

// KeepReads drops the objects that the group has read before, and not in this turn.
func (t *Observer) KeepReads() { t.Watched.Keep(t.Key(), t.reads) }

// readersOf returns who reads an object, and how.
func (w *Watched) readersOf(o client.Object) map[client.ObjectKey]lastRead {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.readers[watchedObject{gvk.GroupKind(), client.ObjectKeyFromObject(o)}])
}

// Requests returns the groups that read an object.
func (w *Watched) Requests(_ context.Context, o client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for key := range w.readersOf(o) {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

// Changes passes changes of objects that groups read. These are deletions, changes of the metadata and the spec, changes of the status
// where that is read, and creations of objects that did not exist when they were read. A watch begins with all objects; those that were
// read already are not passed.
func (w *Watched) Changes() predicate.Predicate {
	has := func(o client.Object, is func(lastRead) bool) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(w.readersOf(o))), is)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return has(e.Object, func(r lastRead) bool { return r.version != e.Object.GetResourceVersion() })
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			differs := differsBesideStatus(e.ObjectOld, e.ObjectNew)
			return has(e.ObjectNew, func(r lastRead) bool { return r.version != e.ObjectNew.GetResourceVersion() && (differs || r.status) })
		},
	}
}

// differsBesideStatus reports whether two versions of an object differ in what Quorate keeps of its metadata, or in its spec.
func differsBesideStatus(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.EqualFunc(before.GetOwnerReferences(), after.GetOwnerReferences(), SameOwner)
}
