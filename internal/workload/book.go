package workload

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// book holds what is known of one cluster.
type book struct {
	// changed is called after each change, without any lock held.
	changed func()

	mu    sync.Mutex
	view  View
	stale bool // the view's lists are older than the shelves
	nodes *nodeShelf
	pods  *shelf[*corev1.Pod]
}

func newBook(changed func()) *book {
	b := &book{changed: changed, view: View{Why: "not connected yet", Since: time.Now()}}
	b.nodes = newNodeShelf(b)
	b.pods = &shelf[*corev1.Pod]{book: b, trim: trimPod, items: map[string]*corev1.Pod{}}
	return b
}

// read returns the view. Its lists are made when they are looked at and newer ones are there.
func (b *book) read() View {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale {
		b.view.Nodes, b.view.Pods = values(b.nodes.items), values(b.pods.items)
		b.stale = false
	}
	return b.view
}

// reach notes that the cluster answers and both shelves are complete. It tells whether that is news.
func (b *book) reach() bool { return b.turn(true, "") }

// lose notes that the cluster does not answer any more, and why. It tells whether it did before.
func (b *book) lose(why string) bool { return b.turn(false, why) }

func (b *book) turn(reachable bool, why string) bool {
	b.mu.Lock()
	turned := b.view.Reachable != reachable
	news := turned || b.view.Why != why
	if turned {
		b.view.Since = time.Now()
	}
	b.view.Reachable, b.view.Why = reachable, why
	b.unlock(news)
	return turned
}

// unlock ends a change; news says whether there was one.
func (b *book) unlock(news bool) {
	if news {
		b.view.Revision++
	}
	b.mu.Unlock()
	if news {
		b.changed()
	}
}

// shelf holds all objects of one kind by name. It shares its book's lock.
type shelf[T metav1.Object] struct {
	book *book
	// trim takes away what nobody looks at, so that what is left changes only when it matters.
	trim  func(T)
	items map[string]T
}

// replace makes the objects of all pages all that there are.
func (s *shelf[T]) replace(pages iter.Seq2[[]T, error]) error {
	fresh := map[string]T{}
	for objects, err := range pages {
		if err != nil {
			return err
		}
		for _, o := range objects {
			s.trim(o)
			fresh[o.GetName()] = o
		}
	}
	s.book.mu.Lock()
	news := !maps.EqualFunc(s.items, fresh, same[T])
	if news {
		s.items, s.book.stale = fresh, true
	}
	s.book.unlock(news)
	return nil
}

func (s *shelf[T]) put(o T) {
	s.trim(o)
	s.book.mu.Lock()
	old, known := s.items[o.GetName()]
	news := !known || !same(old, o)
	if news {
		s.items[o.GetName()], s.book.stale = o, true
	}
	s.book.unlock(news)
}

func (s *shelf[T]) remove(o T) {
	s.book.mu.Lock()
	_, known := s.items[o.GetName()]
	if known {
		delete(s.items, o.GetName())
		s.book.stale = true
	}
	s.book.unlock(known)
}

func same[T metav1.Object](a, b T) bool { return equality.Semantic.DeepEqual(a, b) }

// values returns the objects sorted by name.
func values[T any, P interface {
	*T
	metav1.Object
}](items map[string]P) []T {
	out := make([]T, 0, len(items))
	for _, item := range items {
		out = append(out, *item)
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(P(&a).GetName(), P(&b).GetName()) })
	return out
}

func trimPod(p *corev1.Pod) {
	p.TypeMeta, p.ManagedFields, p.ResourceVersion = metav1.TypeMeta{}, nil, ""
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName}
	for _, c := range p.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	p.Spec = spec
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastProbeTime = metav1.Time{}
	}
}
