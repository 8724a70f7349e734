package host

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/manager/kinds"
)

// lagging is a client whose reads show one state after the other, the last one for good.
type lagging struct {
	client.Client
	scheme *runtime.Scheme
	states []*metav1.ObjectMeta // nil: not there
	reads  int
}

func (l *lagging) Scheme() *runtime.Scheme { return l.scheme }

func (l *lagging) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	obj.SetResourceVersion("20")
	return nil
}

func (l *lagging) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

func (l *lagging) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	state := l.states[min(l.reads, len(l.states)-1)]
	l.reads++
	if state == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, key.Name)
	}
	obj.SetResourceVersion(state.ResourceVersion)
	obj.SetDeletionTimestamp(state.DeletionTimestamp)
	return nil
}

func TestPatient(t *testing.T) {
	at := func(version string) *metav1.ObjectMeta { return &metav1.ObjectMeta{ResourceVersion: version} }
	going := &metav1.ObjectMeta{ResourceVersion: "21", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}
	machine := func() client.Object {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "n", ResourceVersion: "9"}}
	}
	create := func(c client.Client, o client.Object) error { return c.Create(t.Context(), o) }
	remove := func(c client.Client, o client.Object) error { return c.Delete(t.Context(), o) }
	for _, c := range []struct {
		name   string
		do     func(client.Client, client.Object) error
		obj    client.Object
		states []*metav1.ObjectMeta
		reads  int
	}{
		{"a created object that is not shown yet", create, machine(), []*metav1.ObjectMeta{nil, nil, at("20")}, 3},
		// As numbers 9 comes before 20, as text behind it.
		{"an object that is shown as it was", create, machine(), []*metav1.ObjectMeta{at("9"), at("20")}, 2},
		{"an object that somebody changed meanwhile", create, machine(), []*metav1.ObjectMeta{at("100")}, 1},
		{"a deleted object that is shown as living", remove, machine(), []*metav1.ObjectMeta{at("9"), at("9"), going}, 3},
		{"a kind that nobody counts", create, &corev1.Secret{}, []*metav1.ObjectMeta{nil}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lagging{scheme: kinds.Scheme(), states: c.states}
			if err := c.do(&patient{Client: l, counted: counted}, c.obj); err != nil {
				t.Fatal(err)
			}
			if l.reads != c.reads {
				t.Errorf("it returned after %d reads, want %d", l.reads, c.reads)
			}
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	l := &lagging{scheme: kinds.Scheme(), states: []*metav1.ObjectMeta{nil}}
	began := time.Now()
	err := (&patient{Client: l, counted: counted}).Create(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}})
	if took := time.Since(began); err != nil || took < patience || took > 10*patience {
		t.Errorf("of a write that is never shown: %v after %s, want nil after %s", err, took, patience)
	}
}
