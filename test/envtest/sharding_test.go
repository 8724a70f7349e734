package envtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/manager"
)

// TestSharding: two managers with a watch filter each share a management cluster. Each works on its own control planes whatever becomes of
// the other, nobody on one that has no label, and one whose label changes is the other's from then on.
func TestSharding(t *testing.T) {
	needAssets(t)
	env, config := startPlanServer(t)
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	s := &shards{T: t, c: c, program: build(t, "manager"), kubeconfig: administrator(t, env)}
	for name, shard := range map[string]string{"in-east": "east", "in-west": "west", "nowhere": ""} {
		s.make(name, shard)
	}
	endEast := s.run("east")
	s.run("west")
	s.isSeen("in-east")
	s.isSeen("in-west")

	endEast()
	s.resize("in-east", 5)
	s.resize("in-west", 5)
	s.isSeen("in-west")
	if kcp := s.of("in-east"); kcp.Status.ObservedGeneration == kcp.Generation {
		t.Error("a manager works on a control plane of another one's shard, which has ended")
	}
	s.relabel("in-east", "west")
	s.isSeen("in-east")
	if kcp := s.of("nowhere"); len(kcp.Finalizers) > 0 || kcp.Status.Plan.Reason != "" {
		t.Errorf("a control plane of no shard is worked on: %v, %+v", kcp.Finalizers, kcp.Status.Plan)
	}
}

// shards are managers that share a management cluster.
type shards struct {
	*testing.T
	c                   client.Client
	program, kubeconfig string
}

// run starts the manager of a shard, which ends with the test or when the function that it returns is called.
func (s *shards) run(shard string) (end func()) {
	s.Helper()
	cmd := exec.Command(s.program, "--watch-filter", shard, "--leader-elect", "--leader-elect-namespace", "default", "--health-addr",
		"127.0.0.1:0",
		"--diagnostics-address", "127.0.0.1:0", "--insecure-diagnostics", "--shutdown-grace-period", "1s", "--kubeconfig", s.kubeconfig)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &log, &log, append(os.Environ(), "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it says that it was interrupted
	}
	s.Cleanup(func() {
		if end(); s.Failed() {
			s.Logf("the manager of %s:\n%.20000s", shard, log.String())
		}
	})
	return end
}

// make makes a cluster of three machines with the label of a shard; empty: none.
func (s *shards) make(name, shard string) {
	s.Helper()
	labels := map[string]string{}
	if shard != "" {
		labels[clusterv1.WatchLabel] = shard
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: name}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind: "LocalCluster", Name: name}
	if err := s.c.Create(s.Context(), cluster); err != nil {
		s.Fatal(err)
	}
	o := object(s.T, controlPlane)
	o.SetName(name)
	o.SetLabels(labels)
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: cluster.UID}})
	if err := s.c.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
}

// of reads a control plane.
func (s *shards) of(name string) *controlplanev1.KubeadmControlPlane {
	s.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := s.c.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: name}, kcp); err != nil {
		s.Fatal(err)
	}
	return kcp
}

// change changes an object.
func (s *shards) change(o client.Object, how func()) {
	s.Helper()
	before := o.DeepCopyObject().(client.Object)
	how()
	if err := s.c.Patch(s.Context(), o, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// resize wants other machines of a control plane.
func (s *shards) resize(name string, replicas int32) {
	s.Helper()
	kcp := s.of(name)
	s.change(kcp, func() { kcp.Spec.Replicas = ptr.To(replicas) })
}

// relabel moves a cluster to another shard.
func (s *shards) relabel(name, shard string) {
	s.Helper()
	cluster := &clusterv1.Cluster{}
	if err := s.c.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		s.Fatal(err)
	}
	for _, o := range []client.Object{cluster, s.of(name)} {
		s.change(o, func() { o.SetLabels(map[string]string{clusterv1.WatchLabel: shard}) })
	}
}

// isSeen waits until somebody has said what a control plane, as it is now, waits for.
func (s *shards) isSeen(name string) {
	s.Helper()
	said := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		kcp := s.of(name)
		if said = fmt.Sprintf("%d of %d: %+v", kcp.Status.ObservedGeneration, kcp.Generation,
			kcp.Status.Plan); kcp.Status.ObservedGeneration == kcp.Generation && kcp.Status.Plan.Reason != "" {
			return
		}
	}
	s.Fatalf("nobody works on %s: %s", name, said)
}
