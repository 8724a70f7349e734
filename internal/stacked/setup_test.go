package stacked

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/plan"
)

func TestClusterDiffers(t *testing.T) {
	tests := []struct {
		name   string
		change func(*clusterv1.Cluster)
		want   bool
	}{
		{"nothing", func(*clusterv1.Cluster) {}, false},
		{"a condition", func(c *clusterv1.Cluster) { c.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, false},
		{"a label", func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, false},
		{"the endpoint", func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint.Port = 1 }, true},
		{"paused", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, true},
		{"the infrastructure", func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = ptr.To(false) }, true},
		{"failure domains", func(c *clusterv1.Cluster) { c.Status.FailureDomains = nil }, true},
		{"its deletion", func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
	}
	for _, test := range tests {
		after := testCluster()
		test.change(after)
		if got := clusterDiffers(testCluster(), after); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestWhoIsAsked(t *testing.T) {
	other := testCluster()
	other.Name = "other"
	other.Spec.ControlPlaneRef.Kind = "OtherControlPlane"
	w := newWorld(t, testCluster(), other)
	worker := func(cluster string, controls bool) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", Labels: map[string]string{}}}
		m.Spec.ClusterName = cluster
		if controls {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		}
		return m
	}
	named := func(name string) client.Object {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	alone, theirs, ours := worker("", true), worker("", true), worker("", true)
	for _, m := range []*clusterv1.Machine{alone, theirs, ours} {
		m.Labels[clusterv1.ClusterNameLabel] = "demo"
	}
	theirs.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Controller: ptr.To(true)}}
	ours.OwnerReferences = []metav1.OwnerReference{controllerRef(testKCP(1))}
	stranger := func(ctx context.Context, o client.Object) int { return len(w.r.ofStranger(ctx, o)) }
	tests := []struct {
		name string
		of   func(context.Context, client.Object) int
		o    client.Object
		want int
	}{
		{"a Cluster", func(ctx context.Context, o client.Object) int { return len(ofCluster(ctx, o)) }, testCluster(), 1},
		{"a Cluster with another control plane", func(ctx context.Context, o client.Object) int { return len(ofCluster(ctx, o)) }, other, 0},
		{"a view", func(ctx context.Context, o client.Object) int { return len(w.r.ofView(ctx, o)) }, named("demo"), 1},
		{"a view of a Cluster that is gone", func(ctx context.Context, o client.Object) int { return len(w.r.ofView(ctx, o)) }, named("gone"), 0},
		{"a worker", func(ctx context.Context, o client.Object) int { return len(w.r.ofWorker(ctx, o)) }, worker("demo", false), 1},
		{"a control plane's machine", func(ctx context.Context, o client.Object) int { return len(w.r.ofWorker(ctx, o)) }, worker("demo", true), 0},
		{"a control plane's machine that nobody controls", stranger, alone, 1},
		{"a control plane's machine of somebody else", stranger, theirs, 1},
		{"a control plane's machine of ours", stranger, ours, 0},
		{"a control plane's machine of another", stranger, worker("demo", true), 0},
		{"a worker, which nobody adopts", stranger, worker("demo", false), 0},
		{"a worker of another", func(ctx context.Context, o client.Object) int { return len(w.r.ofWorker(ctx, o)) }, worker("other", false), 0},
	}
	for _, test := range tests {
		if got := test.of(context.Background(), test.o); got != test.want {
			t.Errorf("%s: %d requests, want %d", test.name, got, test.want)
		}
	}
	if got := ofCluster(context.Background(), testCluster()); got[0].NamespacedName != kcpKey {
		t.Errorf("asked is %v", got[0])
	}
}

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
	o, err := Observe(context.Background(), w.client, kcpKey, ObserveOptions{Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if o.Cluster.Reachable || o.Cluster.Unreachable == "" || len(o.Machines) != 1 || o.Machines[0].Name != "demo-cp-1" || !o.Cluster.Kubeconfig.Exists || o.Now.IsZero() {
		t.Errorf("observed %+v", o)
	}
	if d := plan.Next(o); d.Reason != "Initializing" {
		t.Errorf("decided %v from it", d)
	}
	if _, err := Observe(context.Background(), w.client, client.ObjectKey{Namespace: "default", Name: "nobody"}, ObserveOptions{}); err == nil {
		t.Error("no error for a control plane that does not exist")
	}
	kcp := w.kcp()
	kcp.OwnerReferences = nil
	if err := w.client.Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	if _, err := Observe(context.Background(), w.client, kcpKey, ObserveOptions{}); err == nil || !strings.Contains(err.Error(), "no Cluster owns") {
		t.Errorf("error is %v for a control plane without a Cluster", err)
	}
}

// TestQuorums: one etcd a cluster, with credentials signed by its own authority.
func TestQuorums(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	q := &quorums{secrets: w.client}
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
