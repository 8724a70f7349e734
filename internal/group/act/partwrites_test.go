package act

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// When a certificate expires is written once, also while the cache does not show it, and again where somebody took it away.
func TestRecordExpiryOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := bootstrapv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m1"}}
	written := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			written++
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	read := func() *bootstrapv1.KubeadmConfig {
		found := &bootstrapv1.KubeadmConfig{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(config), found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	memory, now, end := &observe.Memory{}, time.Now(), time.Now().AddDate(1, 0, 0)
	record := func(cached *bootstrapv1.KubeadmConfig, after time.Duration, want int) {
		t.Helper()
		turn := &Writer{Client: NewClient(c), Observer: &observe.Observer{View: &observe.View{Memory: memory,
			Facts: plan.Observed{Now: now.Add(after)}}}}
		m := &observe.Machine{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}, Bootstrap: cached.DeepCopy()}
		if err := turn.RecordExpiry(t.Context(), m, end); err != nil {
			t.Fatal(err)
		}
		if written != want {
			t.Errorf("written %d times, want %d", written, want)
		}
	}
	old := read()
	record(old, 0, 1)
	record(old, time.Second, 1)
	record(read(), time.Second, 1)
	taken := read()
	delete(taken.Annotations, clusterv1.MachineCertificatesExpiryDateAnnotation)
	if err := c.Update(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	record(read(), 2*time.Second, 2)
	if at := read().Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]; at != end.UTC().Format(time.RFC3339) {
		t.Errorf("the annotation is %q", at)
	}
	record(old, 2*time.Second+observe.CacheTimeout, 3) // whoever put back a backup shows an old one for good
}
