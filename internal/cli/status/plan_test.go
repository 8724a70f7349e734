package status

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/manager"
)

// scene are a Cluster and its control plane, of which no machine is there.
func scene(name string) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: name}
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

// TestChooseWith: without a name -f is about the Cluster in it; with one, about that in it or else an existing one.
func TestChooseWith(t *testing.T) {
	cluster := func(name string) planned {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
		o.SetName(name)
		return planned{Change: command.Change{Object: o}, file: "f.yaml"}
	}
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(append(scene("one"), scene("two")...)...).Build()
	for _, test := range []struct {
		args    []string
		changes []planned
		want    string
		given   bool
	}{
		{[]string{"one"}, nil, "one", false},
		{nil, []planned{cluster("two")}, "two", false},
		{nil, []planned{cluster("new")}, "new", true},
		{[]string{"new"}, []planned{cluster("new"), cluster("two")}, "new", true},
		{[]string{"one"}, []planned{cluster("new")}, "one", false},
		{[]string{"nobody"}, []planned{cluster("new")}, "", false},
		{nil, []planned{cluster("new"), cluster("newer")}, "", false},
	} {
		key, given, err := (&app{Invocation: &command.Invocation{}}).chooseWith(t.Context(), c, test.args, test.changes)
		if key.Name != test.want || (err != nil) != (test.want == "") || err == nil && given != test.given {
			t.Errorf("%v, %d clusters in -f: %s, only given %v, %v; want %q, %v", test.args, len(test.changes), key, given, err, test.want,
				test.given)
		}
	}
}
