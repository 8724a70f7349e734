package act

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestRemovalRestsOnTheMachine: a member of a machine that stays is not removed when that has changed since it was looked at: it may have
// come up. One that goes changes again and again, and goes all the same.
func TestRemovalRestsOnTheMachine(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, goes := range []bool{false, true} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-2", Finalizers: []string{"theirs"}}}
		if goes {
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m.DeepCopy()).Build()
		m.ResourceVersion = "1" // it has another by now
		turn := &Writer{Client: NewClient(c), Observer: &observe.Observer{View: &observe.View{Memory: &observe.Memory{},
			Machines: []*observe.Machine{{Machine: m}}}}}
		err := turn.noteRemoval(t.Context(), plan.Step{Verb: plan.RemoveMember, Machine: m.Name, Member: "2"})
		if goes && err != nil || !goes && !apierrors.IsConflict(err) {
			t.Errorf("it goes: %t: %v", goes, err)
		}
	}
}
