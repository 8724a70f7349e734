package status

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/manager"
)

// scene are a Cluster and its control plane, of which no machine is there.
func scene(name string) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: name}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	kcp.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))})
	return []client.Object{cluster, kcp}
}

// TestPlanAll: a cluster that cannot be looked at in time is told, and holds up none of the others.
func TestPlanAll(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"one", "stuck", "two"} {
		objects = append(objects, scene(name)...)
	}
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == "stuck" {
				<-ctx.Done()
				return ctx.Err()
			}
			return w.Get(ctx, key, o, options...)
		},
	}).Build()
	plans, err := planAll(t.Context(), c, time.Second)
	if err == nil || !strings.Contains(err.Error(), "cluster default/stuck: not looked at within 1s") {
		t.Errorf("the error is %v", err)
	}
	if len(plans) != 2 || plans[0].Cluster != "one" || plans[1].Cluster != "two" {
		t.Errorf("the plans are %+v", plans)
	}
}
