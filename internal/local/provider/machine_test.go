package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/cloudinit"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// life is a cluster that is provisioned, with machines.
func life(cluster string, machines ...string) []client.Object {
	c, lc := aCluster(cluster)
	all := []client.Object{provisioned(c), lc}
	for _, name := range machines {
		m, lm := aMachine(name, c.Name)
		m.Namespace, lm.Namespace = c.Namespace, c.Namespace
		all = append(all, m, lm)
	}
	return all
}

// bootstrapData has a Machine name a secret.
func (s *scene) bootstrapData(machine string, data map[string]string) {
	s.t.Helper()
	key := keyOf(machine)
	secret := &corev1.Secret{ObjectMeta: meta(key.Namespace + "/" + key.Name + "-data"), Data: map[string][]byte{}}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	s.add(secret)
	edit(s, machine, func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = ptr.To(secret.Name) })
}

func TestTheLifeOfAMachine(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)

	// It is made before there is bootstrap data.
	lm := s.machine("one")
	spec := s.host.all["one"].Spec
	if want := (sandbox.Spec{
		Name: "one", Owner: "uid-x", Cluster: "default/alpha", FailureDomain: "a", Address: netip.MustParseAddr("172.30.1.1"),
		PodCIDR: netip.MustParsePrefix("10.244.0.0/24"), Artifacts: artifacts.Set{Kubernetes: "v1.36.3"},
	}); fmt.Sprint(spec) != fmt.Sprint(want) {
		t.Errorf("the machine is %+v, want %+v", spec, want)
	}
	if lm.Spec.ProviderID != "local://one" || lm.Status.FailureDomain != "a" || lm.Status.PodCIDR != "10.244.0.0/24" {
		t.Errorf("spec %+v, status %+v", lm.Spec, lm.Status)
	}
	if want := []clusterv1.MachineAddress{{Type: "Hostname", Address: "one"}, {Type: "InternalIP", Address: "172.30.1.1"}}; !slices.Equal(
		lm.Status.Addresses, want) {
		t.Errorf("addresses %v, want %v", lm.Status.Addresses, want)
	}
	wantCondition(t, lm, infrav1.SandboxReadyCondition, "False Starting containerd does not answer yet")
	wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "False WaitingForBootstrapData Machine one names no bootstrap data yet")
	wantCondition(t, lm, clusterv1.ReadyCondition, "False Starting containerd does not answer yet; bootstrap: Machine one names no")
	wantCondition(t, lm, clusterv1.PausedCondition, "False NotPaused")
	if lm.Status.Initialization.Provisioned != nil {
		t.Error("it is provisioned before it is ready")
	}

	s.host.set("one", func(m *sandbox.Status) { m.Ready = true })
	lm = s.machine("one")
	wantCondition(t, lm, infrav1.SandboxReadyCondition, "True Running")
	if !ptr.Deref(lm.Status.Initialization.Provisioned, false) {
		t.Error("it is ready and not provisioned")
	}

	s.bootstrapData("one", map[string]string{"value": "#cloud-config\n", "format": "cloud-config"})
	lm = s.machine("one")
	if s.host.data["one"] != "#cloud-config\n" {
		t.Errorf("the machine was told %q", s.host.data["one"])
	}
	wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "False BootstrapRunning waiting for the machine")

	s.host.set("one", func(m *sandbox.Status) {
		m.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapRunning, Command: "kubeadm init --config /run/kubeadm.yaml\nsecond line"}
	})
	wantCondition(t, s.machine("one"), clusterv1.ReadyCondition, "False BootstrapRunning `kubeadm init --config /run/kubeadm.yaml ...` runs")

	s.host.set("one", func(m *sandbox.Status) { m.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapSucceeded} })
	lm = s.machine("one")
	wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "True BootstrapSucceeded")
	wantCondition(t, lm, clusterv1.ReadyCondition, "True Ready")
	if s.host.ensured != 1 {
		t.Errorf("the machine was made %d times", s.host.ensured)
	}
}

func TestWhatAMachineWaitsFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *scene, c *clusterv1.Cluster, m *clusterv1.Machine, lm *infrav1.LocalMachine)
		want   string
		again  time.Duration
	}{
		{"an owner", func(_ *scene, _ *clusterv1.Cluster, _ *clusterv1.Machine, lm *infrav1.LocalMachine) {
			lm.OwnerReferences = nil
		},
			"Ready False WaitingForOwner spec.infrastructureRef", 0},
		{"the endpoint", func(_ *scene, c *clusterv1.Cluster, _ *clusterv1.Machine, _ *infrav1.LocalMachine) {
			c.Status.Initialization.InfrastructureProvisioned = nil
		}, "Ready False WaitingForClusterInfrastructure endpoint of cluster alpha", 0},
		{"a person who paused it", func(_ *scene, _ *clusterv1.Cluster, _ *clusterv1.Machine, lm *infrav1.LocalMachine) {
			lm.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, "Paused True Paused annotation", 0},
		{"a person who paused the cluster", func(_ *scene, c *clusterv1.Cluster, _ *clusterv1.Machine, _ *infrav1.LocalMachine) {
			c.Spec.Paused = ptr.To(true)
		}, "Paused True Paused spec.paused", 0},
		{"a version", func(_ *scene, _ *clusterv1.Cluster, m *clusterv1.Machine, _ *infrav1.LocalMachine) {
			m.Spec.Version = ""
		},
			"Ready False SpecInvalid spec.version of Machine one is empty", 0},
		{"a version that there is", func(_ *scene, _ *clusterv1.Cluster, m *clusterv1.Machine, _ *infrav1.LocalMachine) {
			m.Spec.Version = "v1.2.3"
		}, "Ready False NotBuilt Kubernetes v1.2.3 cannot be had: version v1.2.3 cannot be built", retryBuild},
		{"a pod network", func(_ *scene, c *clusterv1.Cluster, _ *clusterv1.Machine, _ *infrav1.LocalMachine) {
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.0.0.0/25"}
		}, "Ready False NoAddress has 10.0.0.0/25, want a range of at least /24", askAgain},
		{"another pod network", func(_ *scene, c *clusterv1.Cluster, _ *clusterv1.Machine, _ *infrav1.LocalMachine) {
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"172.16.0.0/12"}
		}, "Ready False NoAddress overlaps with 172.30.0.0/16, the network of machines", askAgain},
		{"its name", func(s *scene, _ *clusterv1.Cluster, _ *clusterv1.Machine, _ *infrav1.LocalMachine) {
			s.host.all["one"] = &sandbox.Status{Spec: sandbox.Spec{Name: "one", Cluster: "team/alpha"}, State: sandbox.Running}
		}, "Ready False NameInUse a machine of cluster team/alpha is called one", askAgain},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			m, lm := aMachine("one", "alpha")
			s := newScene(t)
			test.change(s, provisioned(c), m, lm)
			s.add(c, lc, m, lm)
			if c.Status.Initialization.InfrastructureProvisioned != nil { // creation drops status
				edit(s, "alpha", func(c *clusterv1.Cluster) { provisioned(c) })
			}
			s.machine("one")
			if version := m.Spec.Version; version != "" {
				s.await(version)
			}
			got := s.machine("one")
			name, want, _ := strings.Cut(test.want, " ")
			wantCondition(t, got, name, want)
			result, err := s.settle(s.machines, "one")
			if err != nil || result.RequeueAfter != test.again {
				t.Errorf("result %+v, %v, want again after %s", result, err, test.again)
			}
			if s.host.ensured != 0 || len(s.host.data) != 0 || got.Spec.ProviderID != "" || got.Status.Initialization.Provisioned != nil {
				t.Errorf("it does not wait: %d made, told %v, spec %+v, status %+v", s.host.ensured, s.host.data, got.Spec, got.Status)
			}
		})
	}
}

func TestAMachineWaitsForABuildWithoutBlocking(t *testing.T) {
	s := newScene(t, life("alpha", "one", "two")...)
	edit(s, "one", func(m *clusterv1.Machine) { m.Spec.Version = "v1.35.4" })
	begun, finish, told := make(chan string, 2), make(chan struct{}), make(chan struct{}, 2)
	s.machines.builds = newBuilds(func(version string) (*artifacts.Set, error) {
		begun <- version
		if version == "v1.35.4" {
			<-finish
		}
		return &artifacts.Set{Kubernetes: version}, nil
	}, func() { told <- struct{}{} })
	lm := s.machine("one")
	wantCondition(t, lm, clusterv1.ReadyCondition, "False Building Kubernetes v1.35.4 is being built")
	if <-begun != "v1.35.4" {
		t.Error("another version is built")
	}
	s.machine("two") // begins a build of its own
	<-begun
	<-told
	s.machine("two")
	if s.host.all["two"] == nil || s.host.all["one"] != nil {
		t.Errorf("machines are %v, want two and not yet one", s.host.all)
	}
	close(finish)
	<-told
	s.machine("one")
	if m := s.host.all["one"]; m == nil || m.Artifacts.Kubernetes != "v1.35.4" {
		t.Errorf("after the build the machine is %+v", m)
	}
	if len(begun) != 0 {
		t.Error("a version was built twice")
	}
}

func TestAFailedBuildIsTriedAgainLater(t *testing.T) {
	calls, done := 0, make(chan struct{}, 1)
	b := newBuilds(func(string) (*artifacts.Set, error) {
		calls++
		if calls == 1 {
			return nil, errors.New("disk full")
		}
		return &artifacts.Set{}, nil
	}, func() { done <- struct{}{} })
	if set, err := b.get("v1"); set != nil || err != nil {
		t.Fatalf("a build that has just begun gave %v, %v", set, err)
	}
	<-done
	if _, err := b.get("v1"); err == nil || calls != 1 {
		t.Fatalf("error %v after %d builds, want the failure and no second build at once", err, calls)
	}
	b.versions["v1"].ended = time.Now().Add(-retryBuild)
	if _, err := b.get("v1"); err == nil {
		t.Error("while it is tried again, the failure is not told")
	}
	<-done
	if set, err := b.get("v1"); set == nil || err != nil || calls != 2 {
		t.Errorf("%v, %v after %d builds", set, err, calls)
	}
}

func TestBootstrapThatDoesNotSucceed(t *testing.T) {
	failed := sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: "kubeadm join", Output: "error: port 6443 is in use\n"}
	for _, test := range []struct {
		name      string
		secret    map[string]string
		bootstrap sandbox.Bootstrap
		want      string
	}{
		{"a command failed", map[string]string{"value": "x"}, failed, "False BootstrapFailed `kubeadm join` failed: error: port 6443 is in use"},
		{"no command", map[string]string{"value": "x"}, sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Output: "powered off"},
			"False BootstrapFailed it failed: powered off"},
		{"a directive", map[string]string{"value": "x"}, sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: "reading",
			Unsupported: "disk_setup"},
			`False BootstrapDataUnsupported local machines cannot carry out "disk_setup"`},
		{"no cloud-config", map[string]string{"value": "x"}, unread("#cloud-config\nruncmd: rm\n"),
			"False BootstrapFailed `reading the bootstrap data` failed: line 2: runcmd: is a value of type str, must be a list"},
		{"a value", map[string]string{"value": "x"}, unread("#cloud-config\nwrite_files:\n- path: /a\n  permissions: rw\n"),
			"False BootstrapFailed `reading the bootstrap data` failed: line 4: write_files[0].permissions: \"rw\" must be octal digits such " +
				"as '0640'"},
		{"a drop-in", map[string]string{"value": "x"}, unread("#cloud-config\nwrite_files:\n- path: " +
			"/etc/systemd/system/kubelet.service.d/20.conf\n"),
			`False BootstrapDataUnsupported local machines cannot carry out "write_files[0].path": line 3: write_files[0].path is not supported: ` +
				`/etc/systemd/system/kubelet.service.d/20.conf: a local machine has no systemd`},
		{"a format", map[string]string{"value": "{}", "format": "ignition"}, sandbox.Bootstrap{},
			`False BootstrapDataUnsupported has the format "ignition"`},
		{"no value", map[string]string{"other": "x"}, sandbox.Bootstrap{}, `False BootstrapDataUnsupported secret one-data has no key "value"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.Ready = true })
			s.bootstrapData("one", test.secret)
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.Bootstrap = test.bootstrap })
			lm := s.machine("one")
			wantCondition(t, lm, infrav1.BootstrapSucceededCondition, test.want)
			wantCondition(t, lm, clusterv1.ReadyCondition, test.want)
			wantCondition(t, lm, infrav1.SandboxReadyCondition, "True Running")
			if test.secret["value"] != "x" && len(s.host.data) != 0 {
				t.Errorf("the machine was told %q", s.host.data)
			}
		})
	}
}

// unread is what a machine says of data that it cannot read.
func unread(data string) sandbox.Bootstrap {
	_, err := cloudinit.Parse([]byte(data), cloudinit.Meta{})
	return sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: "reading the bootstrap data", Output: fmt.Sprint(err),
		Unsupported: cloudinit.Unsupported(err)}
}

func TestASecretThatIsNotThere(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)
	s.machine("one")
	edit(s, "one", func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = ptr.To("gone") })
	if _, err := s.settle(s.machines, "one"); err == nil {
		t.Error("there is no error, so nobody tries again")
	}
	wantCondition(t, get[infrav1.LocalMachine](s, "one"), infrav1.BootstrapSucceededCondition,
		"False WaitingForBootstrapData secret gone, which spec.bootstrap.dataSecretName of Machine one names, is not there")
}

// After a restart the machine may be told again: it takes the first data only.
func TestTheDataIsHandedOverOnce(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)
	s.bootstrapData("one", map[string]string{"value": "x"})
	s.machine("one")
	s.machine("one") // panics if it is handed over twice
	s.host.set("one", func(m *sandbox.Status) { m.Bootstrap.Phase = sandbox.BootstrapRunning })
	s.restart()
	s.machine("one")
}

func TestWhatHappensToMachines(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sandbox.Status)
		want   string
	}{
		{"stopped", func(m *sandbox.Status) { m.State, m.Ready = sandbox.Stopped, false }, "False Stopped `quorate machine start one`"},
		{"paused", func(m *sandbox.Status) { m.State, m.Ready = sandbox.Paused, false }, "False Frozen `quorate machine resume one`"},
		{"dead", func(m *sandbox.Status) { m.State, m.Ready, m.Problem = sandbox.Dead, false, "out of memory" },
			"False Died its first process has ended: out of memory; `quorate machine start one`"},
		{"partitioned", func(m *sandbox.Status) { m.Partitioned = true }, "False Partitioned `quorate machine heal one`"},
		{"containerd gone", func(m *sandbox.Status) { m.Ready, m.Problem = false, "exit status 1" },
			"False Starting containerd does not answer yet: exit status 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.Ready, m.Bootstrap.Phase = true, sandbox.BootstrapSucceeded })
			wantCondition(t, s.machine("one"), clusterv1.ReadyCondition, "True Ready")
			s.host.set("one", test.change)
			lm := s.machine("one")
			wantCondition(t, lm, infrav1.SandboxReadyCondition, test.want)
			wantCondition(t, lm, clusterv1.ReadyCondition, test.want)
			wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "True BootstrapSucceeded")
			if !ptr.Deref(lm.Status.Initialization.Provisioned, false) {
				t.Error("provisioned has turned back")
			}
			if s.host.ensured != 1 {
				t.Error("somebody else's machine was started")
			}
		})
	}
}

func TestWhichDeadMachinesAreStarted(t *testing.T) {
	for _, test := range []struct {
		name        string
		ready       bool
		bootedAfter bool
		want        bool
	}{
		{"it died", true, false, false},
		{"the host was booted", true, true, true},
		{"it never was ready", false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.Ready = test.ready })
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.State, m.Ready = sandbox.Dead, false })
			s.restart()
			if test.bootedAfter {
				s.machines.booted = time.Now().Add(2 * time.Second)
			}
			s.machine("one")
			if started := s.host.all["one"].State == sandbox.Running; started != test.want {
				t.Errorf("started is %v, want %v", started, test.want)
			}
		})
	}
}

func TestAMachineOfWhichNothingIsLeftIsNotMadeAnew(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)
	s.machine("one")
	s.host.set("one", func(m *sandbox.Status) { m.Ready, m.Bootstrap.Phase = true, sandbox.BootstrapSucceeded })
	s.machine("one")
	delete(s.host.all, "one")
	lm := s.machine("one")
	wantCondition(t, lm, clusterv1.ReadyCondition, "False Vanished delete its Machine to replace it")
	wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "True BootstrapSucceeded")
	if len(s.host.all) != 0 {
		t.Error("another machine was made under its name")
	}
}

func TestAMachineThatCannotBeStarted(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)
	s.host.refusing = errors.New("no space left on device")
	for range 2 {
		if _, err := s.settle(s.machines, "one"); err == nil {
			t.Error("there is no error, so nobody tries again")
		}
	}
	wantCondition(t, get[infrav1.LocalMachine](s, "one"), clusterv1.ReadyCondition, "False NotStarted no space left on device")
	s.host.refusing = nil
	s.machine("one")
	if a := s.host.all["one"].Address; a != netip.MustParseAddr("172.30.1.1") {
		t.Errorf("each try took another address: %s", a)
	}
}

func TestResourcesOfAMachine(t *testing.T) {
	c, lc := aCluster("alpha")
	m, lm := aMachine("one", "alpha")
	lm.Spec.Resources = infrav1.LocalMachineResources{CPU: ptr.To(resource.MustParse("1.5")), Memory: ptr.To(resource.MustParse("2Gi"))}
	s := newScene(t, provisioned(c), lc, m, lm)

	// The host has not got that much. It is asked again, without an error.
	for _, test := range []struct {
		missing sandbox.NotFreeError
		want    string
	}{
		{sandbox.NotFreeError{Resource: "memory", Wanted: 2 << 30, Host: 3<<30 + 1, Promised: 1536 << 20},
			"spec.resources.memory is 2Gi, and 1536Mi is free on this host: 3Gi is available, of which 1536Mi is promised to other machines"},
		{sandbox.NotFreeError{Resource: "cpu", Wanted: 1500, Host: 2000, Promised: 1000},
			"spec.resources.cpu is 1500m, and 1 is free on this host: 2 is the host's, of which 1 is promised to other machines"},
		{sandbox.NotFreeError{Resource: "memory", Wanted: 2 << 30, Host: 1 << 30, Promised: 2 << 30}, "and 0 is free on this host"},
	} {
		s.host.refusing = fmt.Errorf("machine one: %w", &test.missing)
		result, err := s.settle(s.machines, "one")
		if err != nil || result.RequeueAfter != askAgain {
			t.Errorf("result %+v, %v, want again after %s", result, err, askAgain)
		}
		got := get[infrav1.LocalMachine](s, "one")
		wantCondition(t, got, clusterv1.ReadyCondition, "False ResourcesNotFree "+test.want)
		if got.Status.Resources != (infrav1.LocalMachineResources{}) {
			t.Errorf("resources of no machine: %+v", got.Status.Resources)
		}
	}

	s.host.refusing = nil
	got := s.machine("one")
	if limits := s.host.all["one"].Resources; limits != (sandbox.Resources{MilliCPU: 1500, Memory: 2 << 30}) {
		t.Errorf("limits %+v", limits)
	}
	if r := got.Status.Resources; r.CPU == nil || r.CPU.String() != "1500m" || r.Memory == nil || r.Memory.String() != "2Gi" {
		t.Errorf("status %+v", r)
	}
	// What a machine was made with stays, whatever its object says.
	edit(s, "one", func(lm *infrav1.LocalMachine) { lm.Spec.Resources = infrav1.LocalMachineResources{} })
	if r := s.machine("one").Status.Resources; r.CPU == nil || r.Memory == nil {
		t.Errorf("status %+v", r)
	}
}

func TestLimitsOfSpecs(t *testing.T) {
	quantity := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		return ptr.To(resource.MustParse(text))
	}
	for _, test := range []struct {
		cpu, memory string
		want        sandbox.Resources
	}{
		{"", "", sandbox.Resources{}},
		{"0.25", "", sandbox.Resources{MilliCPU: 250}},
		{"", "1G", sandbox.Resources{Memory: 1e9}},
		{"10E", "100E", sandbox.Resources{MilliCPU: mostCPUs * 1000, Memory: mostMemory}},
	} {
		lm := &infrav1.LocalMachine{}
		lm.Spec.Resources = infrav1.LocalMachineResources{CPU: quantity(test.cpu), Memory: quantity(test.memory)}
		if got := limitsOf(lm); got != test.want {
			t.Errorf("%q, %q: %+v, want %+v", test.cpu, test.memory, got, test.want)
		}
	}
}

func TestNamesThatNoMachineCanHave(t *testing.T) {
	for _, name := range []string{"with.dots", strings.Repeat("x", 64)} {
		s := newScene(t, life("alpha", name)...)
		wantCondition(t, s.machine(name), clusterv1.ReadyCondition, "False SpecInvalid want at most 63 characters without dots")
		s.remove(get[infrav1.LocalMachine](s, name))
		if s.machine(name) != nil {
			t.Errorf("%s cannot be deleted", name)
		}
	}
}

func TestDeletion(t *testing.T) {
	ready := func() *scene {
		s := newScene(t, life("alpha", "one")...)
		s.cluster("alpha")
		s.machine("one")
		s.host.set("one", func(m *sandbox.Status) { m.Ready = true })
		s.machine("one")
		s.remove(get[infrav1.LocalMachine](s, "one"))
		return s
	}

	s := ready()
	s.balancers.busy["one"] = true
	result, err := s.settle(s.machines, "one")
	if err != nil || result.RequeueAfter != lookAtDrain || s.host.all["one"] == nil {
		t.Fatalf("result %+v, %v: want it to wait for its connections", result, err)
	}
	wantCondition(t, get[infrav1.LocalMachine](s, "one"), clusterv1.ReadyCondition, "False Deleting connections")
	s.balancers.busy["one"] = false
	if s.machine("one") != nil || s.host.all["one"] != nil || len(s.machines.claims.held) != 0 {
		t.Errorf("after the drain there are still %v, %v", s.host.all, s.machines.claims.held)
	}

	t.Run("connections that stay", func(t *testing.T) {
		s := ready()
		s.balancers.busy["one"] = true
		_, lm := s.machines, get[infrav1.LocalMachine](s, "one")
		lm.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-drainLimit - time.Second)}
		of, err := s.machines.ownerOf(context.Background(), lm)
		if err != nil {
			t.Fatal(err)
		}
		if mine, draining, err := s.machines.beforeDeletion(lm, of); !mine || draining || err != nil {
			t.Errorf("mine %v, draining %v, %v: want an end of the wait", mine, draining, err)
		}
	})
	t.Run("a machine that does not run", func(t *testing.T) {
		s := ready()
		s.balancers.busy["one"] = true
		s.host.set("one", func(m *sandbox.Status) { m.State = sandbox.Stopped })
		if s.machine("one") != nil {
			t.Error("it waits for connections to a machine that is off")
		}
	})
	t.Run("the cluster is gone", func(t *testing.T) {
		s := ready()
		s.remove(get[clusterv1.Cluster](s, "alpha"))
		s.remove(get[clusterv1.Machine](s, "one"))
		if s.machine("one") != nil || s.host.all["one"] != nil {
			t.Error("it is left behind")
		}
	})
	t.Run("it cannot be removed", func(t *testing.T) {
		s := ready()
		s.host.refusing = errors.New("mount is busy")
		if _, err := s.settle(s.machines, "one"); err == nil {
			t.Error("there is no error, so nobody tries again")
		}
		wantCondition(t, get[infrav1.LocalMachine](s, "one"), clusterv1.ReadyCondition, "False Deleting mount is busy")
	})
	t.Run("somebody else's machine", func(t *testing.T) {
		s := newScene(t, life("alpha", "one")...)
		s.host.all["one"] = &sandbox.Status{Spec: sandbox.Spec{Name: "one", Cluster: "team/alpha"}, State: sandbox.Running}
		s.machine("one")
		s.remove(get[infrav1.LocalMachine](s, "one"))
		if s.machine("one") != nil || s.host.all["one"] == nil {
			t.Error("want the object gone and the machine of the other cluster left alone")
		}
	})
}

func TestAddressesAndPodRanges(t *testing.T) {
	s := newScene(t, append(life("alpha", "a1", "a2"), life("bravo", "b1")...)...)
	for _, name := range []string{"a1", "a2", "b1"} {
		s.machine(name)
	}
	want := map[string]string{"a1": "172.30.1.1 10.244.0.0/24", "a2": "172.30.1.2 10.244.1.0/24", "b1": "172.30.1.3 10.244.0.0/24"}
	compare := func() {
		t.Helper()
		for name, w := range want {
			if m := s.host.all[name]; m == nil || fmt.Sprint(m.Address, " ", m.PodCIDR) != w {
				t.Errorf("%s has %v, want %s", name, m, w)
			}
		}
	}
	compare()
	if got := s.host.peers["b1"]; len(got) != 0 {
		t.Errorf("b1, alone in its cluster, has the peers %v", got)
	}
	s.machine("a1")
	if want := map[netip.Prefix]netip.Addr{netip.MustParsePrefix("10.244.1.0/24"): netip.MustParseAddr("172.30.1.2")}; !maps.Equal(
		s.host.peers["a1"], want) {
		t.Errorf("a1 has the peers %v, want %v", s.host.peers["a1"], want)
	}

	// What a machine leaves is not given to the next.
	s.remove(get[infrav1.LocalMachine](s, "a2"))
	s.machine("a2")
	m, lm := aMachine("a3", "alpha")
	s.add(m, lm)
	s.machine("a3")
	want = map[string]string{"a1": want["a1"], "a3": "172.30.1.4 10.244.2.0/24"}
	compare()
	s.machine("a1")
	if got := s.host.peers["a1"][netip.MustParsePrefix("10.244.1.0/24")]; got.IsValid() {
		t.Errorf("a1 still has a route to the machine that is gone, via %s", got)
	}

	// A new process knows what is taken from objects and machines.
	s.restart()
	m, lm = aMachine("a4", "alpha")
	s.add(m, lm)
	s.machine("a4")
	want["a4"] = "172.30.1.5 10.244.3.0/24"
	compare()
	s.restart()
	delete(s.host.all, "a4") // of this one only the object tells
	m, lm = aMachine("a5", "alpha")
	s.add(m, lm)
	s.machine("a5")
	want = map[string]string{"a5": "172.30.1.6 10.244.4.0/24"}
	compare()
}

func TestAMachineDoesNotGetAnEndpointsAddress(t *testing.T) {
	c, lc := aCluster("bravo")
	lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "172.30.1.1", Port: 6443}
	s := newScene(t, append(life("alpha", "one"), c, lc)...)
	s.machine("one")
	if a := s.host.all["one"].Address; a == netip.MustParseAddr("172.30.1.1") {
		t.Errorf("the machine has the address %s of an endpoint", a)
	}
}
