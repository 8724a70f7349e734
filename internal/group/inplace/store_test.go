package inplace

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
)

// TestBeginNameTaken: a NodeUpgrade of the name, but of another Machine, is not taken for the Machine's own.
func TestBeginNameTaken(t *testing.T) {
	g := Group{Namespace: "default", Name: "demo-cp", Cluster: "demo", Goal: drift.Goal{Version: "v1.36.3"}}
	taken := g.NodeUpgrade(g.ControlPlaneUpgrade([]string{"demo-cp-1"}), "demo-cp-1", false)
	taken.Spec.Machine.Name = "other-cp-1"
	taken.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	scheme := runtime.NewScheme()
	if err := upgradev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	g.Owner = metav1.OwnerReference{APIVersion: "v1", Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "u"}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(taken).Build()
	s := Store{Cache: c, To: creates{to: c}, APIReader: c, Namespace: "default", Cluster: "demo"}
	err := s.Begin(t.Context(), g, []string{"demo-cp-1"}, []string{"demo-cp-1"}, "demo-cp-1", true)
	if err == nil || !strings.Contains(err.Error(), `spec.machine is "other-cp-1": must be "demo-cp-1"`) {
		t.Errorf("got %v", err)
	}
}

// creates makes objects, and writes nothing else.
type creates struct {
	Writer
	to client.Client
}

func (c creates) Create(ctx context.Context, o client.Object) error { return c.to.Create(ctx, o) }
