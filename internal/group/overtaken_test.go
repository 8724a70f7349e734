package group

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestOwnTemplateConflict: a template whose status or finalizers changed since it was read brings about no turn, so that
// the group looks again by itself.
func TestOwnTemplateConflict(t *testing.T) {
	for err, soon := range map[error]bool{
		apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("it has changed")): true,
		apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "a"):                               false, // its end brings about a turn
		nil: false,
	} {
		c := &Controller{Client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return err
			},
		}).Build()}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "1"}}
		turn := turnOf(c, &observe.View{Cluster: cluster})
		if failure := turn.OwnTemplate(t.Context(), grouptest.Thing("1", nil)); failure != nil {
			t.Errorf("%v: %v", err, failure)
		}
		if got := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Nothing}}) == observe.SoonAfterConflict; got != soon {
			t.Errorf("%v: it looks again soon: %v, want %v", err, got, soon)
		}
	}
}
