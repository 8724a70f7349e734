package provider

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// anEtcdMachine is a Machine of an etcd cluster with its LocalMachine: it has no version of Kubernetes.
func anEtcdMachine(name, cluster string) (*clusterv1.Machine, *infrav1.LocalMachine) {
	m, lm := aMachine(name, cluster)
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster, etcdclusterv1alpha1.MachineLabel: cluster + "-etcd"}
	m.Spec.Version = ""
	return m, lm
}

// TestAMachineOfEtcd: it is made of etcd's artifacts alone, serves behind an endpoint of its own, and leaves that before it goes.
func TestAMachineOfEtcd(t *testing.T) {
	c, lc := aCluster("demo")
	m, lm := anEtcdMachine("e-1", "demo")
	other, otherLocal := aMachine("cp-1", "demo")
	s := newScene(t, provisioned(c), lc, m, lm, other, otherLocal)
	s.built[etcdBuild] = &artifacts.Set{Etcd: "/cache/etcd"}
	s.restart()
	etcd, api := ofEtcd(keyOf("demo")), keyOf("demo")

	got := s.cluster("demo")
	if want := (infrav1.APIEndpoint{Host: got.Spec.ControlPlaneEndpoint.Host, Port: 2379}); got.Status.EtcdEndpoint != want {
		t.Errorf("the endpoint of etcd is %+v, want %+v", got.Status.EtcdEndpoint, want)
	}
	if made := s.machine("e-1"); made.Spec.ProviderID != "local://e-1" || len(made.Status.Addresses) != 2 {
		t.Errorf("%+v", made)
	}
	s.machine("cp-1")
	spec := s.host.all["e-1"].Spec
	if !reflect.DeepEqual(spec.Artifacts, artifacts.Set{Etcd: "/cache/etcd"}) {
		t.Errorf("it is made of %+v", spec.Artifacts)
	}
	s.host.set("e-1", func(m *sandbox.Status) { m.Ready = true })
	if made := s.machine("e-1"); !ptr.Deref(made.Status.Initialization.Provisioned, false) {
		t.Errorf("%+v", made.Status)
	}
	s.cluster("demo")
	address := spec.Address.String()
	want := balancer.Config{
		Listen:   got.Spec.ControlPlaneEndpoint.Host + ":2379",
		Backends: []balancer.Backend{{Name: "e-1", Address: address + ":2379", Probe: "http://" + address + ":2381/readyz"}},
	}
	if serving := s.balancers.serving[etcd]; !reflect.DeepEqual(serving, want) {
		t.Errorf("etcd is served as %+v, want %+v", serving, want)
	}
	if serving := s.balancers.serving[api].Backends; len(serving) != 1 || serving[0].Name != "cp-1" {
		t.Errorf("the API is served by %+v", serving)
	}

	// Cluster API deletes the Machine, which leaves the endpoint at once, and then the LocalMachine.
	edit(s, "e-1", func(m *clusterv1.Machine) { m.Finalizers = []string{"machine"} })
	s.remove(get[clusterv1.Machine](s, "e-1"))
	s.cluster("demo")
	if b := s.balancers.serving[etcd].Backends; len(b) != 1 || !b[0].Draining {
		t.Errorf("of a machine that is being deleted the endpoint has %+v", b)
	}
	s.balancers.busy["e-1"] = true
	s.remove(get[infrav1.LocalMachine](s, "e-1"))
	if left := s.machine("e-1"); left == nil || s.host.all["e-1"] == nil {
		t.Fatal("it goes while connections lead to it")
	}
	s.balancers.busy["e-1"] = false
	if left := s.machine("e-1"); left != nil || s.host.all["e-1"] != nil {
		t.Errorf("it is left: %+v", left)
	}
	last := get[clusterv1.Machine](s, "e-1")
	last.Finalizers = nil
	if err := s.client.Update(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	s.cluster("demo")
	if _, ok := s.balancers.serving[etcd]; ok {
		t.Error("without machines of etcd its endpoint is served")
	}
}

// TestAMachineOfEtcdWaitsForItsBuild: not for one of Kubernetes.
func TestAMachineOfEtcdWaitsForItsBuild(t *testing.T) {
	c, lc := aCluster("demo")
	m, lm := anEtcdMachine("e-1", "demo")
	s := newScene(t, provisioned(c), lc, m, lm)
	if _, err := s.settle(s.machines, "e-1"); err != nil {
		t.Fatal(err)
	}
	s.await(etcdBuild)
	wantCondition(t, s.machine("e-1"), infrav1.SandboxReadyCondition, "False NotBuilt etcd cannot be had: version etcd cannot be built")
}

// TestTheAPIHasEtcdsPort: then there is no endpoint for etcd.
func TestTheAPIHasEtcdsPort(t *testing.T) {
	c, lc := aCluster("demo")
	lc.Spec.ControlPlaneEndpoint.Port = 2379
	lc.CreationTimestamp = metav1.Time{Time: time.Now()}
	m, lm := anEtcdMachine("e-1", "demo")
	s := newScene(t, provisioned(c), lc, m, lm)
	if got := s.cluster("demo"); got.Status.EtcdEndpoint.Host != "" || len(s.balancers.serving) != 1 {
		t.Errorf("%+v, %+v", got.Status, s.balancers.serving)
	}
}

// TestOneEtcdBehindAnEndpoint: where two EtcdClusters name one Cluster, the endpoint leads to members of the one that keeps its etcd; while
// none is there, as during a move, it leads where it did.
func TestOneEtcdBehindAnEndpoint(t *testing.T) {
	c, lc := aCluster("demo")
	one, oneLocal := anEtcdMachine("e-1", "demo")
	two, twoLocal := anEtcdMachine("x-1", "demo")
	two.Labels[etcdclusterv1alpha1.MachineLabel] = "another"
	s := newScene(t, provisioned(c), lc, one, oneLocal, two, twoLocal)
	s.built[etcdBuild] = &artifacts.Set{Etcd: "/cache/etcd"}
	s.restart()
	s.cluster("demo")
	behind := func() string {
		s.cluster("demo")
		var names []string
		for _, b := range s.balancers.serving[ofEtcd(keyOf("demo"))].Backends {
			names = append(names, b.Name)
		}
		return strings.Join(names, " ")
	}
	s.machine("e-1")
	s.machine("x-1")
	for _, name := range []string{"e-1", "x-1"} {
		s.host.set(name, func(m *sandbox.Status) { m.Ready = true })
		s.machine(name)
	}
	if got := behind(); got != "e-1 x-1" {
		t.Errorf("without an EtcdCluster it leads to %q", got)
	}
	for i, name := range []string{"demo-etcd", "another"} {
		e := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
			CreationTimestamp: metav1.Unix(int64(1000+i), 0),
		}}
		if err := s.client.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if got := behind(); got != "e-1" {
		t.Errorf("beside a second EtcdCluster it leads to %q", got)
	}
}
