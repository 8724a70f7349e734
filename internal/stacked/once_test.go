package stacked

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/group"
)

// TestOnceAsksLittle: a look from the command line asks once for the definition of each kind, however many machines there are, and for each machine
// for its two objects.
func TestOnceAsksLittle(t *testing.T) {
	w := grown(t, 7)
	all, definitions := 0, 0
	c := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			all++
			if m, is := o.(*metav1.PartialObjectMetadata); is && m.Kind == "CustomResourceDefinition" {
				definitions++
			}
			return w.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			all++
			return w.List(ctx, list, options...)
		},
	})
	if _, err := group.ObserveOnce(t.Context(), c, New(), kcpKey); err != nil {
		t.Fatal(err)
	}
	if definitions != 2 { // of templates, and of what is made from them
		t.Errorf("definitions were read %d times", definitions)
	}
	if most := 17 + 2*7; all > most {
		t.Errorf("one look at seven machines takes %d requests, at most %d", all, most)
	}
}
