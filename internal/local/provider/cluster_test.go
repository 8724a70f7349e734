package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

func TestAClusterGetsAnEndpoint(t *testing.T) {
	c, lc := aCluster("alpha")
	lc.Spec.FailureDomains = []string{"a", "b"}
	s := newScene(t, c, lc)
	got := s.cluster("alpha")
	if want := (infrav1.APIEndpoint{Host: "172.30.0.10", Port: 6443}); got.Spec.ControlPlaneEndpoint != want {
		t.Errorf("the endpoint is %+v, want %+v", got.Spec.ControlPlaneEndpoint, want)
	}
	if config := s.balancers.serving[keyOf("alpha")]; config.Listen != "172.30.0.10:6443" || len(config.Backends) != 0 {
		t.Errorf("served is %+v, want the endpoint without backends", config)
	}
	if !ptr.Deref(got.Status.Initialization.Provisioned, false) {
		t.Error("it is not provisioned")
	}
	wantCondition(t, got, clusterv1.ReadyCondition, "True EndpointServed")
	wantCondition(t, got, clusterv1.PausedCondition, "False NotPaused")
	if d := got.Status.FailureDomains; len(d) != 2 || d[0].Name != "a" || d[1].Name != "b" || !ptr.Deref(d[0].ControlPlane, false) {
		t.Errorf("failure domains %+v, want a and b for control planes", d)
	}
	if !slices.Contains(got.Finalizers, infrav1.ClusterFinalizer) {
		t.Error("it has no finalizer")
	}
	s.restart()
	if again := s.cluster("alpha"); again.Spec.ControlPlaneEndpoint != got.Spec.ControlPlaneEndpoint {
		t.Errorf("a new process changed the endpoint to %+v", again.Spec.ControlPlaneEndpoint)
	}
}

// The address is in the object before anybody can connect to it: a process that dies in between must not give it away.
func TestTheAddressIsWrittenBeforeItIsServed(t *testing.T) {
	c, lc := aCluster("alpha")
	s := newScene(t, c, lc)
	for i := 0; len(s.balancers.serving) == 0; i++ {
		if i == 5 {
			t.Fatal("nothing is served")
		}
		before := get[infrav1.LocalCluster](s, "alpha").Spec.ControlPlaneEndpoint.Host
		if _, err := s.clusters.Reconcile(context.Background(), ctrl.Request{NamespacedName: keyOf("alpha")}); err != nil {
			t.Fatal(err)
		}
		if len(s.balancers.serving) > 0 && before == "" {
			t.Error("it is served in the same step in which it was chosen")
		}
	}
}

func TestEndpointsThatPeopleChoose(t *testing.T) {
	for _, test := range []struct {
		name           string
		local, cluster string // host:port in LocalCluster and Cluster
		want, ready    string
	}{
		{"in the LocalCluster", "172.30.0.99:443", "", "172.30.0.99:443", "True EndpointServed"},
		{"without a port", "172.30.0.99:0", "", "172.30.0.99:6443", "True EndpointServed"},
		{"a port alone", ":8443", "", "172.30.0.10:8443", "True EndpointServed"},
		{"in the Cluster", "", "10.1.2.3:7443", "10.1.2.3:7443", "True EndpointServed"},
		{"in both, the nearer counts", "172.30.0.98:6443", "10.1.2.3:7443", "172.30.0.98:6443", "True EndpointServed"},
		{"a name", "alpha.example:6443", "", "", `False EndpointInvalid host is "alpha.example", want an IPv4 address`},
		{"IPv6", "[fd00::1]:6443", "", "", `False EndpointInvalid host is "fd00::1"`},
		{"loopback", "127.0.0.1:6443", "", "", `False EndpointInvalid host is "127.0.0.1"`},
		{"the bridge", "172.30.0.1:6443", "", "", "False EndpointInvalid needs for itself"},
		{"the broadcast address", "172.30.255.255:6443", "", "", "False EndpointInvalid needs for itself"},
		{"a machine's", "172.30.1.7:6443", "", "", "False EndpointInUse address 172.30.1.7 is in use by machine other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			host, port := hostPort(t, test.local)
			lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: port}
			host, port = hostPort(t, test.cluster)
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: port}
			s := newScene(t, c, lc)
			s.host.all["other"] = &sandbox.Status{Spec: sandbox.Spec{Name: "other", Address: netip.MustParseAddr("172.30.1.7")}}
			got := s.cluster("alpha")
			wantCondition(t, got, clusterv1.ReadyCondition, test.ready)
			if listen := s.balancers.serving[keyOf("alpha")].Listen; listen != test.want {
				t.Errorf("served is %q, want %q", listen, test.want)
			}
			if is := ptr.Deref(got.Status.Initialization.Provisioned, false); is != (test.want != "") {
				t.Errorf("provisioned is %v", is)
			}
		})
	}
}

func hostPort(t *testing.T, text string) (string, int32) {
	t.Helper()
	if text == "" {
		return "", 0
	}
	i := strings.LastIndexByte(text, ':')
	var port int32
	if _, err := fmt.Sscan(text[i+1:], &port); err != nil {
		t.Fatal(err)
	}
	return strings.Trim(text[:i], "[]"), port
}

func TestEndpointsOfSeveralClusters(t *testing.T) {
	a, la := aCluster("alpha")
	b, lb := aCluster("bravo")
	other, lo := aCluster("team/alpha")
	s := newScene(t, a, la, b, lb, other, lo)
	seen := map[string]string{}
	for _, name := range []string{"alpha", "bravo", "team/alpha"} {
		host := s.cluster(name).Spec.ControlPlaneEndpoint.Host
		if first, ok := seen[host]; ok {
			t.Errorf("%s and %s have the same address %s", first, name, host)
		}
		seen[host] = name
	}

	// Somebody asks for what alpha has.
	c, lc := aCluster("late")
	lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	lc.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)) // older, but alpha serves already
	s.add(c, lc)
	late := s.cluster("late")
	wantCondition(t, late, clusterv1.ReadyCondition,
		"False EndpointInUse 172.30.0.10:6443 is the endpoint of LocalCluster alpha in namespace default")
	result, err := s.settle(s.clusters, "late")
	if err != nil || result.RequeueAfter != askAgain {
		t.Errorf("result %+v, %v: want it to ask again", result, err)
	}
	wantCondition(t, s.cluster("alpha"), clusterv1.ReadyCondition, "True EndpointServed")
	edit(s, "late", func(lc *infrav1.LocalCluster) { lc.Spec.ControlPlaneEndpoint.Port = 7443 })
	wantCondition(t, s.cluster("late"), clusterv1.ReadyCondition, "True EndpointServed")
}

// Two that want the same before either is served: one of them gets it, whichever is looked at first.
func TestTheOlderOfTwoGetsTheEndpoint(t *testing.T) {
	for _, order := range [][]string{{"young", "old"}, {"old", "young"}} {
		var objects []client.Object
		for name, age := range map[string]time.Duration{"young": time.Minute, "old": time.Hour} {
			c, lc := aCluster(name)
			lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "172.30.0.50", Port: 6443}
			lc.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
			objects = append(objects, c, lc)
		}
		s := newScene(t, objects...)
		for _, name := range append(order, order...) {
			s.cluster(name)
		}
		wantCondition(t, s.cluster("old"), clusterv1.ReadyCondition, "True EndpointServed")
		wantCondition(t, s.cluster("young"), clusterv1.ReadyCondition, "False EndpointInUse LocalCluster old")
	}
}

// The cache may show a chosen address late.
func TestAnAddressIsNotGivenTwiceWhileTheCacheIsBehind(t *testing.T) {
	a, la := aCluster("alpha")
	b, lb := aCluster("bravo")
	s := newScene(t, a, la, b, lb)
	first, _, err := s.clusters.choose(context.Background(), la, a)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := s.clusters.choose(context.Background(), lb, b)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := s.clusters.choose(context.Background(), la, a)
	if err != nil || first == second || again != first {
		t.Errorf("chosen %v, %v and again %v, %v: want two, and the first again", first, second, again, err)
	}
}

func TestBackends(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name   string
		change func(m *clusterv1.Machine, lm *infrav1.LocalMachine, s *sandbox.Status)
		want   string
	}{
		{"running", func(*clusterv1.Machine, *infrav1.LocalMachine, *sandbox.Status) {}, "one@172.30.1.1:6443"},
		{"not ready yet", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.Ready = false }, "one@172.30.1.1:6443"},
		{"a worker", func(m *clusterv1.Machine, _ *infrav1.LocalMachine, _ *sandbox.Status) {
			delete(m.Labels, clusterv1.MachineControlPlaneLabel)
		}, ""},
		{"stopped", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.State = sandbox.Stopped }, ""},
		{"paused", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.State = sandbox.Paused }, ""},
		{"dead", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.State = sandbox.Dead }, ""},
		{"partitioned", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.Partitioned = true }, ""},
		{"of another cluster", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.Cluster = "team/alpha" }, ""},
		{"made for another LocalMachine", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.Owner = "uid-y" }, ""},
		{"not made yet", func(_ *clusterv1.Machine, _ *infrav1.LocalMachine, s *sandbox.Status) { s.Name = "" }, ""},
		{"its Machine goes", func(m *clusterv1.Machine, _ *infrav1.LocalMachine, _ *sandbox.Status) {
			m.DeletionTimestamp, m.Finalizers = &now, []string{"x"}
		}, "one@172.30.1.1:6443 draining"},
		{"it goes", func(_ *clusterv1.Machine, lm *infrav1.LocalMachine, _ *sandbox.Status) {
			lm.DeletionTimestamp, lm.Finalizers = &now, []string{"x"}
		}, "one@172.30.1.1:6443 draining"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			m, lm := aMachine("one", "alpha")
			status := sandbox.Status{Spec: sandbox.Spec{Name: "one", Owner: "uid-x", Cluster: "default/alpha",
				Address: netip.MustParseAddr("172.30.1.1")}, State: sandbox.Running, Ready: true}
			test.change(m, lm, &status)
			s := newScene(t, c, lc, m, lm)
			if status.Name != "" {
				s.host.all["one"] = &status
			}
			s.cluster("alpha")
			var got []string
			for _, b := range s.balancers.serving[keyOf("alpha")].Backends {
				text := b.Name + "@" + b.Address
				if b.Draining {
					text += " draining"
				}
				got = append(got, text)
			}
			if strings.Join(got, ",") != test.want {
				t.Errorf("backends %q, want %q", got, test.want)
			}
		})
	}
}

// A machine that a recovery gave up may be started again before it is deleted, and serves the etcd of before then. The endpoint must
// not lead to it, however the machine that stays does.
func TestBackendsWithoutThoseThatLeave(t *testing.T) {
	for _, test := range []struct {
		name            string
		machine, itself bool
		// both go; or the other is a worker.
		both, worker bool
		want         string
	}{
		{"its Machine is held yet", true, false, false, false, "one,two"},
		{"nothing holds it", true, true, false, false, "two"},
		{"its LocalMachine alone", false, true, false, false, "one,two"},
		{"no machine stays", true, true, true, false, "one,two"},
		{"a worker stays", true, true, false, true, "one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			objects := []client.Object{c, lc}
			for _, name := range []string{"one", "two"} {
				m, lm := aMachine(name, "alpha")
				if name == "two" && test.worker {
					delete(m.Labels, clusterv1.MachineControlPlaneLabel)
				}
				goes := name == "one" || test.both
				if goes && test.machine {
					m.DeletionTimestamp, m.Finalizers = new(metav1.Now()), []string{"x"}
				}
				if goes && test.itself {
					lm.DeletionTimestamp, lm.Finalizers = new(metav1.Now()), []string{"x"}
				}
				objects = append(objects, m, lm)
			}
			s := newScene(t, objects...)
			for i, name := range []string{"one", "two"} {
				_, lm := aMachine(name, "alpha")
				s.host.all[name] = &sandbox.Status{Spec: sandbox.Spec{Name: name, Owner: string(lm.UID), Cluster: "default/alpha",
					Address: netip.AddrFrom4([4]byte{172, 30, 1, byte(i + 1)})}, State: sandbox.Running, Ready: true}
			}
			s.cluster("alpha")
			var got []string
			for _, b := range s.balancers.serving[keyOf("alpha")].Backends {
				got = append(got, b.Name)
			}
			if strings.Join(got, ",") != test.want {
				t.Errorf("the endpoint leads to %q, want %q", got, test.want)
			}
		})
	}
}

// After a move the objects of a cluster are told of one kind after the other. An endpoint that leads to the management cluster itself must
// not lose its machines meanwhile.
func TestBackendsStayUntilTheirMachinesAreTold(t *testing.T) {
	one := balancer.Backend{Name: "one", Address: "172.30.1.1:6443"}
	for _, test := range []struct {
		name   string
		told   func(m *clusterv1.Machine, lm *infrav1.LocalMachine) []client.Object
		change func(*sandbox.Status)
		want   int
	}{
		{"neither is told", func(*clusterv1.Machine, *infrav1.LocalMachine) []client.Object { return nil }, func(*sandbox.Status) {}, 1},
		{"the Machine alone", func(m *clusterv1.Machine, _ *infrav1.LocalMachine) []client.Object { return []client.Object{m} },
			func(*sandbox.Status) {}, 1},
		{"the LocalMachine alone", func(_ *clusterv1.Machine, lm *infrav1.LocalMachine) []client.Object { return []client.Object{lm} },
			func(*sandbox.Status) {}, 1},
		{"it does not run", func(*clusterv1.Machine, *infrav1.LocalMachine) []client.Object { return nil },
			func(s *sandbox.Status) { s.State = sandbox.Dead }, 0},
		{"of another cluster", func(*clusterv1.Machine, *infrav1.LocalMachine) []client.Object { return nil },
			func(s *sandbox.Status) { s.Cluster = "team/alpha" }, 0},
		{"both are, and it is a worker", func(m *clusterv1.Machine, lm *infrav1.LocalMachine) []client.Object {
			delete(m.Labels, clusterv1.MachineControlPlaneLabel)
			return []client.Object{m, lm}
		}, func(*sandbox.Status) {}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			m, lm := aMachine("one", "alpha")
			s := newScene(t, append(test.told(m, lm), c, lc)...)
			status := &sandbox.Status{Spec: sandbox.Spec{Name: "one", Owner: "uid-x", Cluster: "default/alpha",
				Address: netip.MustParseAddr("172.30.1.1")}, State: sandbox.Running}
			test.change(status)
			s.host.all["one"] = status
			s.balancers.serving[keyOf("alpha")] = balancer.Config{Backends: []balancer.Backend{one}}
			s.cluster("alpha")
			if got := s.balancers.serving[keyOf("alpha")].Backends; len(got) != test.want || len(got) == 1 && got[0] != one {
				t.Errorf("backends %+v, want %d", got, test.want)
			}
		})
	}
}

func TestBackendsListenWhereTheClusterSays(t *testing.T) {
	s := newScene(t, life("alpha", "two", "one", "three")...)
	edit(s, "alpha", func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.APIServerPort = 7000 })
	for i, name := range []string{"two", "one", "three"} {
		address, _ := at(network, firstMachine+i)
		s.host.all[name] = &sandbox.Status{Spec: sandbox.Spec{Name: name, Owner: "uid-x", Cluster: "default/alpha", Address: address},
			State: sandbox.Running}
	}
	s.cluster("alpha")
	want := []balancer.Backend{{Name: "one", Address: "172.30.1.2:7000"}, {Name: "three", Address: "172.30.1.3:7000"},
		{Name: "two", Address: "172.30.1.1:7000"}}
	if got := s.balancers.serving[keyOf("alpha")].Backends; !slices.Equal(got, want) {
		t.Errorf("backends %v, want %v", got, want)
	}
}

func TestAnEndpointThatCannotBeServed(t *testing.T) {
	c, lc := aCluster("alpha")
	s := newScene(t, c, lc)
	s.balancers.refusing = errors.New("address already in use")
	if _, err := s.settle(s.clusters, "alpha"); err == nil {
		t.Error("there is no error, so nobody tries again")
	}
	got := get[infrav1.LocalCluster](s, "alpha")
	wantCondition(t, got, clusterv1.ReadyCondition, "False EndpointNotServed serving the endpoint 172.30.0.10:6443: address already in use")
	if got.Status.Initialization.Provisioned != nil {
		t.Error("it is provisioned")
	}
	s.balancers.refusing = nil
	wantCondition(t, s.cluster("alpha"), clusterv1.ReadyCondition, "True EndpointServed")
	s.balancers.refusing = errors.New("it ended")
	if _, err := s.settle(s.clusters, "alpha"); err == nil {
		t.Error("there is no error, so nobody tries again")
	}
	got = get[infrav1.LocalCluster](s, "alpha")
	wantCondition(t, got, clusterv1.ReadyCondition, "False EndpointNotServed it ended")
	if !ptr.Deref(got.Status.Initialization.Provisioned, false) {
		t.Error("provisioned has turned back")
	}
}

func TestAClusterGoesAfterItsMachines(t *testing.T) {
	c, lc := aCluster("alpha")
	_, one := aMachine("one", "alpha")
	_, two := aMachine("two", "alpha")
	_, foreign := aMachine("three", "bravo")
	s := newScene(t, c, lc, two, one, foreign)
	s.cluster("alpha")
	s.remove(lc)
	s.balancers.serving = map[client.ObjectKey]balancer.Config{}
	got := s.cluster("alpha")
	wantCondition(t, got, clusterv1.ReadyCondition, "False Deleting waiting until these machines are gone: one, two")
	if _, ok := s.balancers.serving[keyOf("alpha")]; !ok {
		t.Error("its machines are there and the endpoint is not served")
	}
	s.remove(one)
	s.remove(two)
	s.balancers.refusing = errors.New("no permission")
	if _, err := s.settle(s.clusters, "alpha"); err == nil {
		t.Error("there is no error, so nobody tries again")
	}
	wantCondition(t, get[infrav1.LocalCluster](s, "alpha"), clusterv1.ReadyCondition, "False Deleting no permission")
	s.balancers.refusing = nil
	if got := s.cluster("alpha"); got != nil {
		t.Errorf("it is still there: %+v", got.Status)
	}
	if len(s.balancers.serving) != 0 || len(s.clusters.given) != 0 {
		t.Errorf("left are %v and %v", s.balancers.serving, s.clusters.given)
	}
}

func TestClustersThatAreLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(c *clusterv1.Cluster, lc *infrav1.LocalCluster)
		want   string // condition, or nothing at all
	}{
		{"no owner", func(_ *clusterv1.Cluster, lc *infrav1.LocalCluster) { lc.OwnerReferences = nil },
			"Ready False WaitingForOwner spec.infrastructureRef"},
		{"paused by annotation", func(_ *clusterv1.Cluster, lc *infrav1.LocalCluster) {
			lc.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, "Paused True Paused annotation"},
		{"paused with the Cluster", func(c *clusterv1.Cluster, _ *infrav1.LocalCluster) { c.Spec.Paused = ptr.To(true) },
			"Paused True Paused spec.paused"},
		{"managed by somebody else", func(_ *clusterv1.Cluster, lc *infrav1.LocalCluster) {
			lc.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "x"}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			test.change(c, lc)
			s := newScene(t, c, lc)
			got := s.cluster("alpha")
			if len(s.balancers.serving) != 0 || got.Spec.ControlPlaneEndpoint.Host != "" {
				t.Errorf("it is not left alone: %+v, %v", got.Spec, s.balancers.serving)
			}
			if test.want == "" {
				if s.writes != 0 {
					t.Errorf("%d writes, want none", s.writes)
				}
				return
			}
			name, want, _ := strings.Cut(test.want, " ")
			wantCondition(t, got, name, want)
		})
	}
}

func TestAtRestNothingIsWritten(t *testing.T) {
	s := newScene(t, life("alpha", "one", "two")...)
	for range 3 {
		for _, name := range []string{"one", "two"} {
			s.machine(name)
		}
		s.cluster("alpha")
	}
	s.writes = 0
	s.cluster("alpha")
	s.machine("one")
	s.machine("two")
	if s.writes != 0 {
		t.Errorf("%d writes at rest", s.writes)
	}
}
