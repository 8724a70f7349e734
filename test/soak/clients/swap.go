package clients

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/test/soak/history"
)

// swap reads an object and writes it if no other client has meanwhile, again and again.
func (l *Load) swap(ctx context.Context, name string, c kubernetes.Interface) {
	every(ctx, pause, func(n int) {
		g := l.generationNow()
		object := fmt.Sprint(prefix(g), rand.IntN(slots))
		seen := history.Entry{Kind: history.Get, Client: name, Object: object}
		got := l.asked(&seen, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return c.CoreV1().ConfigMaps(swapped).Get(ctx, object, metav1.GetOptions{})
		})
		if seen.Outcome == history.OK {
			l.swapOnce(name, c, got, object, g, n)
		}
	})
}

// swapOnce writes a value of its own into an object, if that is still what was seen; nil: it was not there. It returns the revision that
// the object got; 0: it was not acknowledged.
func (l *Load) swapOnce(name string, c kubernetes.Interface, seen *corev1.ConfigMap, object string, generation int64, n int) int64 {
	value := fmt.Sprintf("%s:%d", name, n)
	e := history.Entry{Kind: history.Swap, Client: name, Object: object, Value: value}
	maps := c.CoreV1().ConfigMaps(swapped)
	if seen == nil {
		l.asked(&e, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return maps.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: object, Labels: map[string]string{generationLabel: text(generation)}},
				Data:       map[string]string{valueKey: value},
			}, metav1.CreateOptions{})
		})
		return e.Revision
	}
	e.Expected = revision(seen.ResourceVersion)
	next := seen.DeepCopy()
	next.Data = map[string]string{valueKey: value}
	l.asked(&e, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return maps.Update(ctx, next, metav1.UpdateOptions{})
	})
	return e.Revision
}

// read reads single objects, and now and then all of a generation.
func (l *Load) read(ctx context.Context, name string, c kubernetes.Interface) {
	every(ctx, pause, func(n int) {
		g := l.generationNow()
		if n%listEvery == 0 {
			l.list(name, c, swapped, prefix(g), metav1.ListOptions{LabelSelector: fmt.Sprintf("%s=%d", generationLabel, g)})
			return
		}
		object := fmt.Sprint(prefix(g), rand.IntN(slots))
		l.asked(&history.Entry{Kind: history.Get, Client: name, Object: object}, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return c.CoreV1().ConfigMaps(swapped).Get(ctx, object, metav1.GetOptions{})
		})
	})
}

// list reads all objects with names that begin so, and records them. It returns the revision of the list; 0: no answer came.
func (l *Load) list(name string, c kubernetes.Interface, namespace, prefix string, options metav1.ListOptions) int64 {
	e := history.Entry{Kind: history.List, Client: name, Object: prefix, Begin: l.record.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), 4*requestTimeout)
	defer cancel()
	got, err := c.CoreV1().ConfigMaps(namespace).List(ctx, options)
	e.End, e.Outcome = l.record.Now(), outcome(err)
	if err != nil {
		e.Error = err.Error()
		l.record.Write(e)
		return 0
	}
	e.Revision = revision(got.ResourceVersion)
	for i := range got.Items {
		if m := &got.Items[i]; len(m.Name) >= len(prefix) && m.Name[:len(prefix)] == prefix {
			e.Items = append(e.Items, history.Item{Object: m.Name, Value: m.Data[valueKey], Revision: revision(m.ResourceVersion)})
		}
	}
	l.record.Write(e)
	return e.Revision
}
