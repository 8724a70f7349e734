package stacked

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

func TestInitialised(t *testing.T) {
	configMap := func(namespace, name string) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	config, info := configMap("kube-system", "kubeadm-config"), configMap("kube-public", "cluster-info")
	tests := []struct {
		name    string
		objects []runtime.Object
		tokens  bool
		want    string
	}{
		{"nothing yet", nil, true, "kubeadm init has not written the ConfigMap kubeadm-config in kube-system yet"},
		{"the configuration alone", []runtime.Object{config}, true, "kubeadm init has not written the ConfigMap cluster-info in kube-public yet"},
		{"both", []runtime.Object{config, info}, true, ""},
		{"cluster-info alone", []runtime.Object{info}, true, "kubeadm init has not written the ConfigMap kubeadm-config in kube-system yet"},
		{"without the phase that lets others join", []runtime.Object{config}, false, ""},
	}
	for _, test := range tests {
		got, err := initialised(context.Background(), fake.NewClientset(test.objects...), test.tokens)
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	kcp := testKCP(1)
	if skips(kcp, tokenPhase) {
		t.Error("skips a phase that nobody named")
	}
	kcp.Spec.KubeadmConfigSpec.InitConfiguration.SkipPhases = []string{"addon/coredns", "bootstrap-token"}
	if !skips(kcp, tokenPhase) {
		t.Error("does not skip the phase that the user named")
	}
}

// TestObserve looks once, as the command line does, at a cluster that does not answer.
func TestObserve(t *testing.T) {
	cluster := testCluster()
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	w := newWorld(t, cluster, testKCP(1))
	w.settle()
	o, err := group.ObserveOnce(context.Background(), w.client, New(), kcpKey)
	if err != nil {
		t.Fatal(err)
	}
	if o.Cluster.Reachable || o.Cluster.Unreachable == "" || len(o.Machines) != 1 || o.Machines[0].Name != "demo-cp-1" || !o.Cluster.Kubeconfig.Exists || o.Now.IsZero() {
		t.Errorf("observed %+v", o)
	}
	if d := plan.Next(o); d.Reason != "Initializing" {
		t.Errorf("decided %v from it", d)
	}
	if _, err := group.ObserveOnce(context.Background(), w.client, New(), client.ObjectKey{Namespace: "default", Name: "nobody"}); err == nil {
		t.Error("no error for a control plane that does not exist")
	}
	kcp := w.kcp()
	kcp.OwnerReferences = nil
	if err := w.client.Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	if _, err := group.ObserveOnce(context.Background(), w.client, New(), kcpKey); err == nil || !strings.Contains(err.Error(), "no Cluster owns") {
		t.Errorf("error is %v for a control plane without a Cluster", err)
	}
}

// TestQuorums: one etcd a cluster, with credentials signed by its own authority.
func TestQuorums(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	q := group.NewQuorums(w.client)
	if _, err := q.Of(context.Background(), testCluster()); err == nil {
		t.Error("no error without the authority")
	}
	w.provide()
	first, err := q.Of(context.Background(), testCluster())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := q.Of(context.Background(), testCluster()); err != nil || again != first {
		t.Errorf("another client for the same cluster: %v", err)
	}
	q.Forget(clusterKey)
	if again, err := q.Of(context.Background(), testCluster()); err != nil || again == first {
		t.Errorf("the client that was closed is used again: %v", err)
	}
}
