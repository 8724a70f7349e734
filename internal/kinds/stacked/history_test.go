package stacked

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
)

// done are the steps of the control plane's history, as it is stored.
func (w *world) done() []history.Entry {
	w.t.Helper()
	found := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: kcpKey.Namespace, Name: history.Name(kind, kcpKey.Name)}
	if err := w.client.Get(context.Background(), key, found); err != nil {
		w.t.Fatal(err)
	}
	entries := history.Decode(found.Data[history.Key], time.Now()).Entries
	return slices.DeleteFunc(entries, func(e history.Entry) bool { return e.Step == "" })
}

// historyText is the control plane's history, as it is stored.
func (w *world) historyText() string {
	w.t.Helper()
	found := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: kcpKey.Namespace, Name: history.Name(kind, kcpKey.Name)}
	if err := w.client.Get(context.Background(), key, found); err != nil {
		w.t.Fatal(err)
	}
	return found.Data[history.Key]
}

// stepsOf are the steps of entries in their order.
func stepsOf(entries []history.Entry) string {
	var steps []string
	for _, e := range entries {
		steps = append(steps, e.Step)
	}
	return strings.Join(steps, ", ")
}

const madeThree = "WriteCertificates, WriteKubeconfig, Create demo-cp-1 in c, the first, Create demo-cp-2 in b, Create demo-cp-3 in a"

// TestHistory: what was done to a control plane can be read afterwards, and a manager that starts goes on with it.
func TestHistory(t *testing.T) {
	w := grown(t, 3)
	entries := w.done()
	if got := stepsOf(entries); got != madeThree {
		t.Errorf("recorded is %s, want %s", got, madeThree)
	}
	for _, e := range entries {
		if e.Outcome != history.Done || e.Took.Duration == 0 || e.Reason == "" || e.Message == "" {
			t.Errorf("recorded is %+v", e)
		}
	}
	w.use(w.client)
	w.turn()
	w.scale(5)
	w.settle()
	if got := stepsOf(w.done()); !strings.HasPrefix(got, madeThree+", Create demo-cp-4") {
		t.Errorf("after a restart it is %s", got)
	}
	if last := w.done()[len(w.done())-1]; last.Verb != plan.Create || last.Took.Duration != 0 {
		t.Errorf("a machine that is not complete: %+v", last)
	}
}

// TestHistoryAtRest: nothing is written where nothing is done, and what is written after a step is written once.
func TestHistoryAtRest(t *testing.T) {
	w := grown(t, 3)
	writes, reads := 0, 0
	isHistory := func(o client.Object) bool { _, is := o.(*corev1.ConfigMap); return is }
	w.intercept(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if isHistory(o) {
				reads++
			}
			return c.Get(ctx, key, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if isHistory(o) {
				writes++
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	for range 5 {
		w.turn()
	}
	if reads != 1 || writes != 0 {
		t.Errorf("at rest it is read %d times and written %d times", reads, writes)
	}
	w.scale(5)
	w.settle()
	if reads != 1 || writes != 1 {
		t.Errorf("two machines are made, and it is read %d times and written %d times", reads, writes)
	}
}

// TestHistoryRefused: nothing waits for a history that cannot be kept.
func TestHistoryRefused(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "history", nil)
	w.intercept(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, is := o.(*corev1.ConfigMap); is {
				return refused
			}
			return c.Create(ctx, o, options...)
		},
	})
	w.settle()
	w.init = true
	w.join("demo-cp-1")
	w.forgetEtcd()
	if got := w.settle(); got.Step != string(plan.Nothing) {
		t.Errorf("it does not come to rest: %+v", got)
	}
}

// TestHistoryPaused: while the cluster is paused, others may be moving its objects, and nothing is written beside them.
func TestHistoryPaused(t *testing.T) {
	w := grown(t, 1)
	writes := 0
	w.intercept(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, is := o.(*corev1.ConfigMap); is {
				writes++
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		kcp.Spec.Replicas = ptr.To(int32(3))
	})
	w.turn()
	w.turn()
	if writes != 0 {
		t.Errorf("it is written %d times during a pause", writes)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Annotations = nil })
	w.settle()
	if writes == 0 {
		t.Error("it is not written after the pause")
	}
}
