package provider

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// stale is a client whose cache still shows an object that may be gone.
type stale struct {
	client.Client
	shown client.Object
}

func (c stale) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	switch into := into.(type) {
	case *infrav1.LocalMachine:
		if shown, ok := c.shown.(*infrav1.LocalMachine); ok {
			shown.DeepCopyInto(into)
			return nil
		}
	case *infrav1.LocalCluster:
		if shown, ok := c.shown.(*infrav1.LocalCluster); ok {
			shown.DeepCopyInto(into)
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, opts...)
}

// That an object is gone is no failure for whoever let it go or never held it: an error would be logged, and nothing could be
// done about it.
func TestTheCacheShowsWhatIsGone(t *testing.T) {
	for _, test := range []struct {
		name string
		age  func(o client.Object) // how old what the cache shows is
		fail bool
	}{
		{"we let it go", func(o client.Object) { o.SetDeletionTimestamp(ptr.To(metav1.Now())) }, false},
		{"it was never held", func(o client.Object) { o.SetFinalizers(nil) }, false},
		{"it was never anybody's", func(o client.Object) { o.SetFinalizers(nil); o.SetOwnerReferences(nil) }, false},
		{"somebody else let it go", func(client.Object) {}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			s.cluster("alpha")
			s.machine("one")
			lm, lc := get[infrav1.LocalMachine](s, "one"), get[infrav1.LocalCluster](s, "alpha")
			lm.Status.Addresses, lc.Status.Initialization = nil, infrav1.Initialization{} // there is something to write
			s.remove(lm)
			s.machine("one")
			s.remove(lc)
			s.cluster("alpha")
			test.age(lm)
			test.age(lc)
			before := s.host.ensured
			s.machines.client, s.clusters.client = stale{s.client, lm}, stale{s.client, lc}
			for name, r := range map[string]reconcile.Reconciler{"one": s.machines, "alpha": s.clusters} {
				if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: keyOf(name)}); (err != nil) != test.fail {
					t.Errorf("%s gave %v, want a failure: %v", name, err, test.fail)
				}
			}
			if !test.fail && s.host.ensured != before {
				t.Error("a machine was made for an object that is gone")
			}
		})
	}
}

// Somebody else's finalizer may keep an object after we have let it go.
func TestNothingIsWrittenOnceItIsLetGo(t *testing.T) {
	s := newScene(t, append(life("alpha"), life("bravo", "one")...)...)
	s.cluster("alpha")
	s.machine("one")
	lm, lc := get[infrav1.LocalMachine](s, "one"), get[infrav1.LocalCluster](s, "alpha")
	for _, o := range []client.Object{lm, lc} {
		o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerDeleteDependents))
		if err := s.client.Update(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.remove(lm)
	s.machine("one")
	s.remove(lc)
	s.cluster("alpha")
	for _, name := range []string{"alpha", "bravo"} {
		edit(s, name, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }) // a condition would tell of it
	}
	before := s.writes
	lm, lc = s.machine("one"), s.cluster("alpha")
	if s.writes != before || s.host.all["one"] != nil || len(s.balancers.serving) > 0 {
		t.Errorf("%d writes, machines %v, endpoints %v", s.writes-before, s.host.all, s.balancers.serving)
	}
	for _, o := range []client.Object{lm, lc} {
		if want := []string{metav1.FinalizerDeleteDependents}; !slices.Equal(o.GetFinalizers(), want) {
			t.Errorf("%s has the finalizers %v, want %v", o.GetName(), o.GetFinalizers(), want)
		}
	}
}
