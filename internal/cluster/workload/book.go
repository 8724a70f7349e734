package workload

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// book holds what is known of one cluster.
type book struct {
	// changed is called after each change, without any lock held.
	changed func()
	bounds  untrusted.Bounds

	mu    sync.Mutex
	view  View
	stale bool // the view's lists are older than the shelves
	nodes *nodeShelf
	pods  *shelf[*corev1.Pod]
}

func newBook(bounds untrusted.Bounds, changed func()) *book {
	b := &book{changed: changed, bounds: bounds, view: View{Why: "not connected yet", Since: time.Now()}}
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

// reach notes that the cluster answers and both shelves are complete. It reports whether that is news.
func (b *book) reach() bool { return b.turn(true, outcome{}, "") }

// lose notes that the cluster does not answer any more, and why. It reports whether it did before.
func (b *book) lose(why string, last outcome) bool { return b.turn(false, last, why) }

// outcome is what came of the last outcome to connect.
type outcome struct {
	// made: there was something to attempt it with; silent: nothing answered.
	made, silent bool
}

func (b *book) turn(reachable bool, last outcome, why string) bool {
	b.mu.Lock()
	turned := b.view.Reachable != reachable
	news := turned || b.view.Why != why || last.silent == b.view.SilentSince.IsZero() || last.made == b.view.FailingSince.IsZero()
	count(&b.view.FailingSince, last.made)
	count(&b.view.SilentSince, last.silent)
	if turned {
		b.view.Since = time.Now()
	}
	b.view.Reachable, b.view.Why = reachable, why
	b.unlock(news)
	return turned
}

// count notes since when something has been so.
func count(since *time.Time, is bool) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = time.Now()
	}
}

// unlock ends a change; news reports whether there was one.
func (b *book) unlock(news bool) {
	if news {
		b.view.Revision++
	}
	b.mu.Unlock()
	if news {
		b.changed()
	}
}

// fits says that more is to be kept of the cluster than may be. bytes are those of one shelf, and others those of the other. The book is
// locked.
func (b *book) fits(bytes, others int64) error {
	if bytes+others > b.bounds.Kept {
		return b.bounds.KeptExceeded()
	}
	return nil
}

// overhead is about how many bytes of memory an object takes besides those that it has in protobuf.
const overhead = 1 << 10

// sized is an object that knows how many bytes it has in protobuf.
type sized interface {
	object
	Size() int
}

// weight is about how many bytes of memory an object takes.
func weight[T sized](o T) int64 { return int64(o.Size()) + overhead }

// shelf holds all objects of one kind by name. It shares its book's lock.
type shelf[T sized] struct {
	book *book
	// trim removes what no code reads, so that what is left changes only when it matters.
	trim  func(T)
	items map[string]T
	// bytes is about how much memory the items take.
	bytes int64
}

// replace makes the objects of a list all that there are.
func (s *shelf[T]) replace(objects iter.Seq2[T, error]) error {
	fresh, bytes := map[string]T{}, int64(0)
	for o, err := range objects {
		if err != nil {
			return err
		}
		s.trim(o)
		if bytes += weight(o); bytes > s.book.bounds.Kept {
			return s.book.bounds.KeptExceeded()
		}
		fresh[o.GetName()] = o
	}
	s.book.mu.Lock()
	if err := s.book.fits(bytes, s.book.nodes.bytes); err != nil {
		s.book.unlock(false)
		return err
	}
	news := !maps.EqualFunc(s.items, fresh, same[T])
	s.bytes = bytes
	if news {
		s.items, s.book.stale = fresh, true
	}
	s.book.unlock(news)
	return nil
}

func (s *shelf[T]) put(o T) error {
	s.trim(o)
	s.book.mu.Lock()
	old, known := s.items[o.GetName()]
	bytes := s.bytes + weight(o)
	if known {
		bytes -= weight(old)
	}
	if err := s.book.fits(bytes, s.book.nodes.bytes); err != nil {
		s.book.unlock(false)
		return err
	}
	news := !known || !same(old, o)
	if news {
		s.items[o.GetName()], s.bytes, s.book.stale = o, bytes, true
	}
	s.book.unlock(news)
	return nil
}

func (s *shelf[T]) remove(o T) {
	s.book.mu.Lock()
	old, known := s.items[o.GetName()]
	if known {
		s.bytes -= weight(old)
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
}](
	items map[string]P,
) []T {
	out := make([]T, 0, len(items))
	for _, item := range items {
		out = append(out, *item)
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(P(&a).GetName(), P(&b).GetName()) })
	return out
}

// learnerFlags leaves of a command what it says of how many learners etcd takes at once.
func learnerFlags(command []string) []string {
	var kept []string
	for i, word := range command {
		for _, flag := range learnersFlags {
			if strings.Contains(word, flag) || i > 0 && strings.HasSuffix(command[i-1], flag) {
				kept = append(kept, word)
				break
			}
		}
	}
	return kept
}

// learnersFlags are the ends of the names of etcd's flags for that, and that of a file which may say it.
var learnersFlags = []string{"max-learners", "config-file"}

// learnerVariables leaves of variables those that say how many learners etcd takes at once.
func learnerVariables(env []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for _, v := range env {
		if strings.HasSuffix(v.Name, learnersVariable) || v.Name == configVariable {
			kept = append(kept, v)
		}
	}
	return kept
}

// learnersVariable is the end of the name of etcd's variable for that, and configVariable names a file which may say it.
const (
	learnersVariable = "MAX_LEARNERS"
	configVariable   = "ETCD_CONFIG_FILE"
)

// trimPod leaves of a pod what podFields names, without what changes and does not matter, and without what a terminal would act on.
func trimPod(p *corev1.Pod) {
	m, said := p.ObjectMeta, p.Status
	p.TypeMeta = metav1.TypeMeta{}
	p.ObjectMeta = metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences,
	}
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName}
	for _, c := range p.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{
			Name: c.Name, Image: c.Image, Command: learnerFlags(c.Command), Env: learnerVariables(c.Env),
		})
	}
	p.Spec = spec
	p.Status = corev1.PodStatus{
		Phase: said.Phase, Conditions: said.Conditions, Message: said.Message, Reason: said.Reason,
		ContainerStatuses: said.ContainerStatuses, InitContainerStatuses: said.InitContainerStatuses,
	}
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastProbeTime = metav1.Time{}
	}
}
