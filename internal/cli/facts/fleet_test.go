package facts

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/manager"
)

// fleetObjects are two namespaces with clusters of the same names, and a cluster without a control plane.
func fleetObjects() []client.Object {
	var objects []client.Object
	for _, namespace := range []string{"b", "a"} {
		in := func(o client.Object) {
			o.SetNamespace(namespace)
			objects = append(objects, o)
		}
		for _, name := range []string{"demo", "other"} {
			cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, kubeadmControlPlane))
			cluster.Name = name
			cluster.Spec.ControlPlaneRef.Name = name + "-cp"
			kcp := controlPlanes()[kubeadmControlPlane]
			kcp.SetName(name + "-cp")
			in(cluster)
			in(kcp)
			for _, machine := range []string{"-2", "-1"} {
				m := newMachine(name + machine)
				m.Labels = map[string]string{clusterv1.ClusterNameLabel: name, clusterv1.MachineControlPlaneLabel: ""}
				in(&m)
			}
		}
		wrong := controlPlanes()[controlPlane] // another kind of the same name
		in(wrong)
		etcd := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("demo-etcd")}
		in(etcd)
		deployment := &clusterv1.MachineDeployment{ObjectMeta: named("demo-workers")}
		in(deployment)
		lone := clusterOf(clusterv1.ContractVersionedObjectReference{})
		lone.Name = "lone"
		in(lone)
		stray := newMachine("stray")
		stray.Labels = map[string]string{clusterv1.ClusterNameLabel: "nobody"}
		in(&stray)
	}
	return objects
}

// TestReadAll: what is read of all clusters in one list of each kind is what is read of each alone.
func TestReadAll(t *testing.T) {
	var lists atomic.Int32
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(fleetObjects()...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists.Add(1)
			return w.List(ctx, list, options...)
		},
	}).Build()
	all, err := ReadAll(t.Context(), c)
	if err != nil || lists.Load() != 6 {
		t.Fatalf("%v after %d lists", err, lists.Load())
	}
	keys, err := List(t.Context(), c)
	if err != nil || len(keys) != len(all) || len(all) != 6 {
		t.Fatalf("%d of %d clusters, %v", len(all), len(keys), err)
	}
	text := func(o *Objects) string {
		raw, err := json.MarshalIndent(Describe(Seen{Objects: o}), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for i, key := range keys {
		alone, err := Read(t.Context(), c, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := text(all[i]), text(alone); got != want {
			t.Errorf("%s among all is %s\nalone %s", key, got, want)
		}
		if etcd := len(all[i].EtcdClusters); (key.Name == "demo") != (etcd == 1) {
			t.Errorf("%s has %d EtcdClusters", key, etcd)
		}
		if kind := all[i].ControlPlane; (key.Name == "lone") != (kind == nil) {
			t.Errorf("the control plane of %s is %+v", key, kind)
		}
	}
	failing := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if _, is := list.(*clusterv1.MachineList); is {
				return errors.New("forbidden")
			}
			return nil
		},
	}).Build()
	if _, err := ReadAll(t.Context(), failing); err == nil || !strings.Contains(err.Error(), "listing Machines: forbidden") {
		t.Errorf("without the right to list machines: %v", err)
	}
}

// TestDescribeObjects: of a cluster that was not looked at only what the management plane says is known.
func TestDescribeObjects(t *testing.T) {
	s := complete()
	s.Objects.EtcdClusters = []*Group{viewOf(etcdcluster.New(), &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("demo-etcd")})}
	got := DescribeObjects(s.Objects)
	if got.Problem != "" || got.Etcd.Known || got.Etcd.Why != NotLooked || !got.Etcd.Managed || got.EtcdClusters[0].Etcd.Known {
		t.Errorf("problem %q, etcd %+v and %+v", got.Problem, got.Etcd, got.EtcdClusters[0].Etcd)
	}
	for _, m := range got.Machines() {
		if !strings.Contains(m.Waiting, NotLooked) {
			t.Errorf("%s waits for %q", m.Name, m.Waiting)
		}
	}
	if next := got.ControlPlane.Next; next.Step != "Nothing" || got.ControlPlane.Version != "v1.36.3" {
		t.Errorf("the control plane is %+v", got.ControlPlane)
	}
}

// TestDescribeElsewhere: of machines that are not this host's their infrastructure and Nodes are known.
func TestDescribeElsewhere(t *testing.T) {
	s := complete()
	s.Sandboxes = nil
	if got := Describe(s).ControlPlane.Machines[0].Waiting; got != "the machine to be made" {
		t.Errorf("without infrastructure it waits for %q", got)
	}
	s.Objects.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
		Status: metav1.ConditionTrue}}
	if got := Describe(s).ControlPlane.Machines[0]; got.Waiting != "" || !got.NodeReady {
		t.Errorf("with a Node it waits for %q", got.Waiting)
	}
	s.View.Nodes = nil
	if got := Describe(s).ControlPlane.Machines[0].Waiting; got != "its Node to be registered" {
		t.Errorf("without a Node it waits for %q", got)
	}
}

// TestConditions: the conditions of a status are told in its order.
func TestConditions(t *testing.T) {
	s := complete()
	s.Objects.ControlPlane.Conditions = []metav1.Condition{
		{Type: "B", Status: metav1.ConditionFalse, Reason: "Why", Message: "because", LastTransitionTime: start}, {Type: "A", Status: "Unknown"},
	}
	got := Describe(s).ControlPlane.Conditions
	if len(got) != 2 || got[0].Type != "B" || got[0].Status != "False" || got[0].Reason != "Why" || got[0].Message != "because" ||
		!got[0].Since.Equal(start.Time) || got[1].Type != "A" {
		t.Errorf("conditions are %+v", got)
	}
}
