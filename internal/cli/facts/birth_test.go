package facts

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/manager"
)

// TestPlansOfBirth: a cluster that is only given is planned from its first machine on, as it will be when Cluster API and the
// infrastructure have done their part.
func TestPlansOfBirth(t *testing.T) {
	cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, kubeadmControlPlane))
	kcp := controlPlanes()[kubeadmControlPlane].(*controlplanev1.KubeadmControlPlane)
	kcp.Status = controlplanev1.KubeadmControlPlane{}.Status
	kcp.Spec.Replicas = ptr.To[int32](3)
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
	given := []*unstructured.Unstructured{as(t, cluster), as(t, kcp)}
	plans, err := Plans(t.Context(), c, c.Scheme(), client.ObjectKeyFromObject(cluster), given)
	if err != nil || len(plans) != 1 {
		t.Fatalf("%+v, %v", plans, err)
	}
	p := plans[0]
	if len(p.Machines) != 3 || !p.Done() || p.Replaces() || p.MostMachines != 3 || p.LeastSpare != 0 {
		t.Errorf("the plan is %+v", p)
	}
	for _, m := range p.Machines {
		if m.Fate != forecast.Add {
			t.Errorf("Machine %s: %s", m.Name, m.Fate)
		}
	}
	if last := p.Steps[len(p.Steps)-1].After; last.Voters != 3 || last.Spare != 1 {
		t.Errorf("at the end it is %+v", last)
	}

	older := as(t, cluster)
	older.SetAPIVersion("cluster.x-k8s.io/v1beta1")
	_, err = Plans(t.Context(), c, c.Scheme(), client.ObjectKeyFromObject(cluster), []*unstructured.Unstructured{older, as(t, kcp)})
	if err == nil || !strings.Contains(err.Error(), "invalid apiVersion cluster.x-k8s.io/v1beta1: must be cluster.x-k8s.io/v1beta2") {
		t.Errorf("of another version: %v", err)
	}
	_, err = Plans(t.Context(), c, c.Scheme(), client.ObjectKeyFromObject(cluster), []*unstructured.Unstructured{as(t, cluster)})
	if err == nil || !strings.Contains(err.Error(), "has no KubeadmControlPlane yet") {
		t.Errorf("without a control plane: %v", err)
	}
}

// TestPlansOfGivenEtcd: an EtcdCluster that is only given is planned too, and one that exists is not planned twice.
func TestPlansOfGivenEtcd(t *testing.T) {
	cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, kubeadmControlPlane))
	kcp := controlPlanes()[kubeadmControlPlane].(*controlplanev1.KubeadmControlPlane)
	kcp.Spec.Replicas = ptr.To[int32](1)
	etcd := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "demo-etcd",
		Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name}}}
	etcd.Spec.Replicas = ptr.To[int32](3)
	given := func() []*unstructured.Unstructured {
		return []*unstructured.Unstructured{as(t, cluster), as(t, kcp), as(t, etcd)}
	}
	for _, there := range [][]client.Object{nil, {etcd.DeepCopy()}} {
		c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(there...).Build()
		plans, err := Plans(t.Context(), c, c.Scheme(), client.ObjectKeyFromObject(cluster), given())
		if err != nil || len(plans) != 2 || plans[0].Group != "EtcdCluster demo-etcd" {
			t.Errorf("%+v, %v", plans, err)
		}
	}
}
