package group

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// testKind is as much of a kind as the parts of a turn need that are tested here.
type testKind struct{ Kind }

func (testKind) Type() observe.Type {
	return observe.Type{GroupVersionKind: controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), Resource: "kubeadmcontrolplanes"}
}
func (testKind) New() observe.Object { return &controlplanev1.KubeadmControlPlane{} }

// testTurn is a turn of an object with machines, of whom three are wanted.
func testTurn(object observe.Object, machines ...*clusterv1.Machine) *Turn {
	v := observe.NewView(grouptest.Cluster(), machines, plan.Observed{Now: time.Now(), Want: plan.Want{Replicas: 3}})
	v.Object = object
	return turnOf(&Controller{Kind: testKind{}}, v)
}

// observing is what looks at an object with machines, of whom three are wanted.
func observing(object observe.Object, machines ...*clusterv1.Machine) *observe.Observer {
	v := observe.NewView(grouptest.Cluster(), machines, plan.Observed{Now: time.Now(), Want: plan.Want{Replicas: 3}})
	v.Object, v.Memory = object, &observe.Memory{}
	return &observe.Observer{View: v}
}

// turnOf is a turn of a controller that goes on with what was seen.
func turnOf(c *Controller, seen *observe.View) *Turn {
	of := &kept{}
	seen.Memory = &of.Memory
	if c.Kind != nil {
		seen.Type = c.Kind.Type()
	}
	return c.turnOf(&observe.Observer{View: seen, Sources: c.sources(), Kind: c.Kind}, of)
}

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
		after := grouptest.Cluster()
		test.change(after)
		if got := clusterDiffers(grouptest.Cluster(), after); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestWhoIsAsked(t *testing.T) {
	other := grouptest.Cluster()
	other.Name = "other"
	other.Spec.ControlPlaneRef.Kind = "OtherControlPlane"
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &Controller{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(grouptest.Cluster(), other).Build(), Kind: testKind{}}
	worker := func(cluster string, controls bool) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", Labels: map[string]string{}}}
		m.Spec.ClusterName = cluster
		if controls {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		}
		return m
	}
	cluster := func(name string) client.Object {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	alone, theirs, ours := worker("", true), worker("", true), worker("", true)
	for _, m := range []*clusterv1.Machine{alone, theirs, ours} {
		m.Labels[clusterv1.ClusterNameLabel] = "demo"
	}
	theirs.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Controller: ptr.To(true)}}
	ours.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(grouptest.Object(), testKind{}.Type().GroupVersionKind)}
	stranger := func(ctx context.Context, o client.Object) int { return len(c.ofUncontrolled(ctx, o)) }
	tests := []struct {
		name string
		of   func(context.Context, client.Object) int
		o    client.Object
		want int
	}{
		{"a Cluster", func(ctx context.Context, o client.Object) int { return len(c.ofCluster(ctx, o)) }, grouptest.Cluster(), 1},
		{"a Cluster with another control plane", func(ctx context.Context, o client.Object) int { return len(c.ofCluster(ctx, o)) }, other, 0},
		{"a view", func(ctx context.Context, o client.Object) int { return len(c.ofView(ctx, o)) }, cluster("demo"), 1},
		{"a view of a Cluster that is gone", func(ctx context.Context, o client.Object) int { return len(c.ofView(ctx, o)) }, cluster("gone"), 0},
		{"a worker", func(ctx context.Context, o client.Object) int { return len(c.ofWorker(ctx, o)) }, worker("demo", false), 1},
		{"a control plane's machine", func(ctx context.Context, o client.Object) int { return len(c.ofWorker(ctx, o)) }, worker("demo", true), 0},
		{"a control plane's machine that nobody controls", stranger, alone, 1},
		{"a control plane's machine of somebody else", stranger, theirs, 1},
		{"a control plane's machine of ours", stranger, ours, 0},
		{"a control plane's machine of another", stranger, worker("demo", true), 0},
		{"a worker, which nobody adopts", stranger, worker("demo", false), 0},
		{"a worker of another", func(ctx context.Context, o client.Object) int { return len(c.ofWorker(ctx, o)) }, worker("other", false), 0},
	}
	for _, test := range tests {
		if got := test.of(context.Background(), test.o); got != test.want {
			t.Errorf("%s: %d requests, want %d", test.name, got, test.want)
		}
	}
	if got := c.ofCluster(context.Background(), grouptest.Cluster()); got[0].NamespacedName != grouptest.Key {
		t.Errorf("asked is %v", got[0])
	}
}

func TestVersions(t *testing.T) {
	var machines []*clusterv1.Machine
	for _, v := range []string{"v1.36.3", "v1.9.0", "v1.36.3", ""} {
		m := grouptest.Machines("m")[0]
		m.Spec.Version = v
		machines = append(machines, m)
	}
	got := machine.Versions(machines)
	if len(got) != 2 || got[0].Version != "v1.9.0" || got[0].Replicas != 1 || got[1].Version != "v1.36.3" || got[1].Replicas != 2 {
		t.Errorf("versions are %+v", got)
	}
}

// TestUndatedFacts: what nobody dates is dated when it is seen.
func TestUndatedFacts(t *testing.T) {
	at := func(n int64) time.Time { return time.Now().Add(time.Duration(n) * time.Hour).Truncate(time.Second) }
	s := testTurn(grouptest.Object(), grouptest.Machines("m1", "m2")...)
	s.Facts.Etcd = plan.Etcd{Known: true, Members: []plan.Member{{ID: "1"}, {ID: "2"}}}
	look := func(n int64) time.Time {
		s.Facts.Now = at(n)
		s.note()
		return s.newest()
	}
	if got := look(1); !got.Before(at(1)) {
		t.Errorf("what is seen first counts as new: %v", got)
	}
	s.Object.SetGeneration(2)
	if got := look(2); !got.Equal(at(2)) {
		t.Errorf("what is wanted changed at %v, want %v", got, at(2))
	}
	if got := look(3); !got.Equal(at(2)) {
		t.Errorf("nothing has changed since %v, and yet %v", at(2), got)
	}
	s.Facts.Etcd.Members[1].Leader = true
	if got := look(4); !got.Equal(at(4)) {
		t.Errorf("the leader changed at %v, want %v", got, at(4))
	}
	s.Facts.Etcd.Known, s.Facts.Etcd.Members = false, nil
	if got := look(5); !got.Equal(at(4)) {
		t.Errorf("not knowing the members is no change of them: %v", got)
	}
	s.Machines, s.Facts.Machines = s.Machines[1:], s.Facts.Machines[1:]
	if got := look(6); !got.Equal(at(6)) {
		t.Errorf("a Machine went at %v, want %v", got, at(6))
	}
}

// TestVersionLeaps: one minor version at a time, back only to where a machine still is.
func TestVersionLeaps(t *testing.T) {
	for _, test := range []struct {
		want string
		has  []string
		says string
	}{
		{"v1.36.3", nil, ""},
		{"v1.36.3", []string{"v1.36.3"}, ""},
		{"v1.36.3", []string{"v1.35.4"}, ""},
		{"v1.36.3", []string{"v1.36.9"}, ""},
		{"v1.37.0", []string{"v1.37.0", "v1.35.4"},
			`invalid spec.version "v1.37.0": must be v1.36, one minor version above the oldest machine's v1.35`},
		{"v1.35.4", []string{"v1.36.3", "v1.35.4"}, ""},
		{"v1.35.4", []string{"v1.36.3", "v1.36.3"}, `invalid spec.version "v1.35.4": must be v1.36 or later, because no machine is older`},
		{"v2.0.0", []string{"v1.36.3"}, `invalid spec.version "v2.0.0": must be v1.37, one minor version above the oldest machine's v1.36`},
		{"v1.36.3", []string{"unknown"}, ""},
		{"unknown", []string{"v1.36.3"}, ""},
	} {
		var machines []*clusterv1.Machine
		for _, v := range test.has {
			m := grouptest.Machines("m")[0]
			m.Spec.Version = v
			machines = append(machines, m)
		}
		if got := machine.Leap(test.want, machines); got != test.says {
			t.Errorf("%s from %v: %q, want %q", test.want, test.has, got, test.says)
		}
	}
}
