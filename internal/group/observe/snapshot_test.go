package observe_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/group/observe"
)

// counting is a client that counts its requests, and fails as often as it is told to.
type counting struct {
	client.Client
	gets, lists, failures atomic.Int32
}

func newCounting(objects ...client.Object) *counting {
	c := &counting{}
	c.Client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			c.gets.Add(1)
			if c.failures.Add(-1) >= 0 {
				return errors.New("it fails")
			}
			return w.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			c.lists.Add(1)
			return w.List(ctx, list, options...)
		},
	}).Build()
	return c
}

var key = client.ObjectKey{Namespace: "n", Name: "a"}

func object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", Labels: map[string]string{"l": "v"}},
		Data: map[string]string{"k": "v"}}
}

// TestSnapshotAsksOnce: however many ask, also at the same time, and each has a copy of its own.
func TestSnapshotAsksOnce(t *testing.T) {
	c := newCounting(object())
	r := observe.NewSnapshot(c)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var got corev1.ConfigMap
			if err := r.Get(t.Context(), key, &got); err != nil || got.Data["k"] != "v" {
				t.Errorf("%v, %v", got.Data, err)
				return
			}
			got.Data["k"] = "mine"
		})
	}
	all.Wait()
	var secret corev1.Secret
	for range 2 {
		if err := r.Get(t.Context(), key, &secret); !apierrors.IsNotFound(err) {
			t.Errorf("a Secret of that name: %v", err)
		}
	}
	if n := c.gets.Load(); n != 2 {
		t.Errorf("%d requests for two objects", n)
	}
}

// TestSnapshotLists: a list is asked for once, another selector is another list, and what was listed is known by its name.
func TestSnapshotLists(t *testing.T) {
	c := newCounting(object())
	r := observe.NewSnapshot(c)
	for range 2 {
		var all, some, none corev1.ConfigMapList
		for list, options := range map[*corev1.ConfigMapList][]client.ListOption{
			&all: nil, &some: {client.InNamespace("n"), client.MatchingLabels{"l": "v"}},
			&none: {client.InNamespace("n"), client.MatchingLabels{"l": "w"}},
		} {
			if err := r.List(t.Context(), list, options...); err != nil {
				t.Fatal(err)
			}
		}
		if len(all.Items) != 1 || len(some.Items) != 1 || len(none.Items) != 0 {
			t.Errorf("listed %d, %d, %d", len(all.Items), len(some.Items), len(none.Items))
		}
	}
	var got corev1.ConfigMap
	if err := r.Get(t.Context(), key, &got); err != nil || got.Data["k"] != "v" || c.lists.Load() != 3 || c.gets.Load() != 0 {
		t.Errorf("%v, %v, after %d lists, %d gets", got.Data, err, c.lists.Load(), c.gets.Load())
	}
}

// TestSnapshotForgetsFailures: a read after a failure reads again.
func TestSnapshotForgetsFailures(t *testing.T) {
	c := newCounting(object())
	c.failures.Store(1)
	r := observe.NewSnapshot(c)
	var got corev1.ConfigMap
	if err := r.Get(t.Context(), key, &got); err == nil {
		t.Error("no error")
	}
	if err := r.Get(t.Context(), key, &got); err != nil {
		t.Error(err)
	}
}
