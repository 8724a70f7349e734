package provider

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// insideCluster is a cluster itself, with the machines "one" and "two".
func insideCluster(t *testing.T, provider string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	node := func(name, provider string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-a-node"}, Spec: corev1.NodeSpec{ProviderID: provider}}
	}
	pod := func(name, on string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: corev1.PodSpec{NodeName: on}}
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(node("one", provider), node("two", "local://two"), pod("etcd-one", "one"), pod("kube-proxy-a", "one"), pod("etcd-two", "two"),
			pod("pending", "")).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			p, ok := o.(*corev1.Pod)
			if !ok {
				return nil
			}
			return []string{p.Spec.NodeName}
		}).Build()
}

func left(t *testing.T, c client.Client) (nodes, pods []string) {
	t.Helper()
	var n corev1.NodeList
	var p corev1.PodList
	if err := errors.Join(c.List(t.Context(), &n), c.List(t.Context(), &p)); err != nil {
		t.Fatal(err)
	}
	for _, x := range n.Items {
		nodes = append(nodes, x.Name)
	}
	for _, x := range p.Items {
		pods = append(pods, x.Name)
	}
	return nodes, pods
}

// The pods of a machine go with it, and no others.
func TestAClusterForgetsAMachineThatIsGone(t *testing.T) {
	const own = "local://one"
	all, others := []string{"etcd-one", "etcd-two", "kube-proxy-a", "pending"}, []string{"etcd-two", "pending"}
	for _, c := range []struct {
		name, provider string
		change         func(*scene)
		refused        error
		pods           []string
	}{
		{name: "a machine", provider: own, pods: others},
		{name: "a Node of another machine", provider: "local://other", pods: all},
		{name: "a cluster that does not answer", provider: own, refused: errors.New("no connection"), pods: all},
		{name: "a cluster that goes", provider: own, pods: all, change: func(s *scene) {
			edit(s, "alpha", func(c *clusterv1.Cluster) { c.Finalizers = []string{"held"} })
			s.remove(get[clusterv1.Cluster](s, "alpha"))
		}},
		{name: "a machine that lives on", provider: own, pods: all, change: func(s *scene) {
			s.annotate("one", infrav1.DeletionDelayAnnotation, "1h")
		}},
		{name: "a machine that cannot be removed", provider: own, pods: all, change: func(s *scene) { s.host.refusing = errors.New("busy") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, inside := newScene(t, life("alpha", "one")...), insideCluster(t, c.provider)
			s.cluster("alpha")
			s.machine("one")
			s.machines.workload = func(context.Context, client.ObjectKey) (client.Client, error) { return inside, c.refused }
			if c.change != nil {
				c.change(s)
			}
			s.remove(get[infrav1.LocalMachine](s, "one"))
			_, err := s.settle(s.machines, "one")
			if (err != nil) != (s.host.refusing != nil) {
				t.Error(err)
			}
			nodes, pods := left(t, inside)
			if !slices.Equal(pods, c.pods) || slices.Contains(nodes, "one") != (len(c.pods) == len(all)) {
				t.Errorf("nodes %v and pods %v are left, want pods %v", nodes, pods, c.pods)
			}
		})
	}
}
