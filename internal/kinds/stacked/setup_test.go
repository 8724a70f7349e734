package stacked

import (
	"context"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestSkips: kubeadm init may leave out the phase that lets others join.
func TestSkips(t *testing.T) {
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
	o, err := observe.Once(context.Background(), w.client, New(), kcpKey)
	if err != nil {
		t.Fatal(err)
	}
	if o.Cluster.Reachable || o.Cluster.Unreachable == "" || len(o.Machines) != 1 || o.Machines[0].Name != "demo-cp-1" ||
		len(o.Cluster.Chores) != 1 || o.Cluster.Chores[0].Reason != "KubeconfigExpiring" || o.Now.IsZero() {
		t.Errorf("observed %+v", o)
	}
	if d := plan.Next(o); d.Reason != "Initializing" {
		t.Errorf("decided %v from it", d)
	}
	if _, err := observe.Once(context.Background(), w.client, New(), client.ObjectKey{Namespace: "default", Name: "nobody"}); err == nil {
		t.Error("no error for a control plane that does not exist")
	}
	kcp := w.kcp()
	kcp.OwnerReferences = nil
	if err := w.client.Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	if _, err := observe.Once(context.Background(), w.client, New(), kcpKey); err == nil || !strings.Contains(err.Error(), "no Cluster owns") {
		t.Errorf("error is %v for a control plane without a Cluster", err)
	}
}

// TestQuorums: one etcd a cluster, with credentials signed by its own authority.
func TestQuorums(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	q := observe.NewQuorums(w.client, "")
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
