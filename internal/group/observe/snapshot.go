package observe

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Snapshot reads a management cluster for one look: each object and each list is requested once, however many readers ask, also at the
// same time, and later readers get what was read first. It remembers what it has read, and that something does not exist. It forgets other
// errors, so that the next reader asks again. Its methods may be called at the same time.
type Snapshot struct {
	from client.Reader

	mu    sync.Mutex
	asked map[string]*reading
}

// reading is what one question came to.
type reading struct {
	// done is closed when found and err are there.
	done  chan struct{}
	found runtime.Object
	err   error
}

// NewSnapshot returns a Snapshot that has read nothing yet.
func NewSnapshot(from client.Reader) *Snapshot {
	return &Snapshot{from: from, asked: map[string]*reading{}}
}

// Get implements client.Reader.
func (r *Snapshot) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if len(options) > 0 {
		return r.from.Get(ctx, key, into, options...)
	}
	return r.once(ctx, questionOf(into, key), into, func(empty runtime.Object) error { return r.from.Get(ctx, key, empty.(client.Object)) })
}

// List implements client.Reader. What is listed whole need not be asked for by its name any more.
func (r *Snapshot) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.Raw != nil || o.Continue != "" || o.Limit != 0 {
		return r.from.List(ctx, into, options...)
	}
	name := fmt.Sprintf("list %T %s in %q, labels %v, fields %v", into, into.GetObjectKind().GroupVersionKind(), o.Namespace, o.LabelSelector,
		o.FieldSelector)
	return r.once(ctx, name, into, func(empty runtime.Object) error {
		if err := r.from.List(ctx, empty.(client.ObjectList), options...); err != nil {
			return err
		}
		return meta.EachListItem(empty, r.keep)
	})
}

// questionOf names a question for an object.
func questionOf(o client.Object, key client.ObjectKey) string {
	return fmt.Sprintf("%T %s %s", o, o.GetObjectKind().GroupVersionKind(), key)
}

// keep remembers an object of a list.
func (r *Snapshot) keep(item runtime.Object) error {
	o, is := item.(client.Object)
	if !is {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := questionOf(o, client.ObjectKeyFromObject(o)); r.asked[name] == nil {
		a := &reading{done: make(chan struct{}), found: o}
		close(a.done)
		r.asked[name] = a
	}
	return nil
}

// once asks a question, unless it was asked, and copies the answer.
func (r *Snapshot) once(ctx context.Context, name string, into runtime.Object, ask func(empty runtime.Object) error) error {
	for {
		a, first := r.begin(name)
		if first {
			a.found = into.DeepCopyObject()
			if a.err = ask(a.found); a.err != nil && !apierrors.IsNotFound(a.err) {
				r.forget(name)
			}
			close(a.done)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case a.err == nil:
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(a.found.DeepCopyObject()).Elem())
			return nil
		case first || apierrors.IsNotFound(a.err):
			return a.err
		}
		// Who asked may have had less time than this one has.
	}
}

// begin returns the answer to a question, and whether it is to be asked now.
func (r *Snapshot) begin(name string) (a *reading, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a = r.asked[name]; a != nil {
		return a, false
	}
	a = &reading{done: make(chan struct{})}
	r.asked[name] = a
	return a, true
}

func (r *Snapshot) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, name)
}
