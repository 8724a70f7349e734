package removal

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/manager"
)

// A cluster that is paused is deleted all the same: first its deletion is asked for, then whatever is paused goes on.
func TestDeletingAPausedCluster(t *testing.T) {
	of := func(name, cluster string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			Annotations: annotations, Finalizers: []string{"held"}}
	}
	paused := func() map[string]string { return map[string]string{clusterv1.PausedAnnotation: "", "other": "stays"} }
	cluster := &clusterv1.Cluster{ObjectMeta: of("demo", "demo", paused())}
	cluster.Spec.Paused = ptr.To(true)
	objects := []client.Object{
		cluster,
		&clusterv1.Machine{ObjectMeta: of("demo-cp-1", "demo", paused())},
		&clusterv1.Machine{ObjectMeta: of("demo-cp-2", "demo", nil)},
		&infrav1.LocalMachine{ObjectMeta: of("demo-cp-1", "demo", paused())},
		&controlplanev1.KubeadmControlPlane{ObjectMeta: of("demo-cp", "demo", paused())},
		&controlplanev1alpha1.ControlPlane{ObjectMeta: of("demo-machines", "demo", paused())},
		&clusterv1.Machine{ObjectMeta: of("other-cp-1", "other", paused())},
	}
	var wrote []string
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			wrote = append(wrote, "delete "+o.GetName())
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			wrote = append(wrote, "patch "+o.GetName())
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	key := client.ObjectKeyFromObject(cluster)
	ended, err := Delete(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"LocalMachine demo-cp-1", "Machine demo-cp-1", "KubeadmControlPlane demo-cp", "ControlPlane demo-machines",
		"Cluster demo"}; !slices.Equal(ended, want) {
		t.Errorf("ended the pauses of %v, want %v", ended, want)
	}
	if want := []string{"delete demo", "patch demo-cp-1", "patch demo-cp-1", "patch demo-cp", "patch demo-machines",
		"patch demo"}; !slices.Equal(wrote, want) {
		t.Errorf("wrote %v, want %v", wrote, want)
	}
	if err := c.Get(t.Context(), key, cluster); err != nil || cluster.DeletionTimestamp.IsZero() || ptr.Deref(cluster.Spec.Paused, false) ||
		len(cluster.Annotations) != 1 {
		t.Errorf("%v: %+v %+v", err, cluster.ObjectMeta, cluster.Spec)
	}
	foreign := &clusterv1.Machine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "other-cp-1"}, foreign); err != nil ||
		len(foreign.Annotations) != 2 {
		t.Errorf("another cluster's machine: %v, %v", err, foreign.Annotations)
	}
	if text := Sentence(ended); !strings.HasPrefix(text,
		"LocalMachine demo-cp-1, Machine demo-cp-1, KubeadmControlPlane demo-cp and 2 more was paused") {
		t.Errorf("%q", text)
	}
	wrote = nil
	if ended, err := Delete(t.Context(), c, key); err != nil || len(ended) > 0 || len(wrote) > 1 {
		t.Errorf("again: %v, %v, wrote %v", ended, err, wrote)
	}
	if _, err := Delete(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "none"}); apierrors.IsNotFound(err) {
		t.Errorf("of none: %v", err)
	}
}
