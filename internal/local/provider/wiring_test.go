package provider

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// wired is the provider in a manager, over a real API server and real endpoint processes; machines are in memory, and
// the test says what Cluster API's core would say.
type wired struct {
	*scene
	state string
}

func newWired(t *testing.T) *wired {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../../config/crd", coreCRDs(t)}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 3 * time.Minute,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: 3 * time.Minute}}
	t.Cleanup(func() { // also after a Start that failed half-way
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	w := &wired{scene: &scene{t: t, host: newHost()}, state: t.TempDir()}
	w.host.changed = make(chan string, 100)
	if w.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	options := Options{
		Network: network, State: w.state, NodeBinary: os.Args[0],
		Artifacts: func(_ context.Context, version string) (*artifacts.Set, error) {
			return &artifacts.Set{Kubernetes: version}, nil
		},
	}
	if err := setup(ctx, mgr, options, controller.Options{MaxConcurrentReconciles: 10}, w.host, &addressBook{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := Teardown(context.Background(), w.state); err != nil {
			t.Error(err)
		}
	})
	return w
}

// coreCRDs is a folder with those of Cluster API's own kinds that the provider reads, as its module has them.
func coreCRDs(t *testing.T) string {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("asking where the module of Cluster API lies: %v", err)
	}
	folder := t.TempDir()
	for _, kind := range []string{"clusters", "machines"} {
		name := "cluster.x-k8s.io_" + kind + ".yaml"
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "core/config/crd/bases", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// reason is the reason of an object's Ready condition.
func reason[T any, P interface {
	*T
	client.Object
	conditions.Getter
}](
	w *wired, name string,
) string {
	o := get[T, P](w.scene, name)
	if o == nil {
		return "gone"
	}
	return conditions.GetReason(o, clusterv1.ReadyCondition)
}

func reconciles(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range f.Metric {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

func TestWiring(t *testing.T) {
	w := newWired(t)
	c, lc := aCluster("alpha")
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "x.example", Kind: "X", Name: "x"}
	w.add(c)
	w.add(lc)
	machineReady := func(name string) string { return reason[infrav1.LocalMachine](w, name) }
	after := func(what string, done func() bool) time.Duration {
		t.Helper()
		start := time.Now()
		eventually(t, what, done)
		return time.Since(start)
	}

	t.Logf("FIGURE LocalCluster to served endpoint: %s", after("the endpoint is served", func() bool {
		return reason[infrav1.LocalCluster](w, "alpha") == infrav1.EndpointServedReason
	}))
	for _, name := range []string{"one", "two"} {
		m, lm := aMachine(name, "alpha")
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "x.example", Kind: "X", Name: "x"}
		w.add(m)
		w.add(lm)
	}
	after("one waits for the cluster", func() bool { return machineReady("one") == infrav1.WaitingForClusterReason })
	edit(w.scene, "alpha", func(c *clusterv1.Cluster) { provisioned(c) })
	t.Logf("FIGURE provisioned cluster to started machines: %s", after("they are started", func() bool {
		return machineReady("one") == infrav1.StartingReason && machineReady("two") == infrav1.StartingReason
	}))
	after("each has a route to the other", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return len(w.host.peers["one"]) == 1 && len(w.host.peers["two"]) == 1
	})
	w.runs(machineReady, after)
	w.rests()
	w.refuses()
	w.fails(machineReady, after)
	w.goes(after)
}

// runs has the machines become ready and bootstrap, and measures how long it takes until objects show it.
func (w *wired) runs(ready func(string) string, after func(string, func() bool) time.Duration) {
	t := w.t
	for _, name := range []string{"one", "two"} {
		w.host.set(name, func(m *sandbox.Status) { m.Ready = true })
		after(name+" is provisioned", func() bool {
			return ptr.Deref(get[infrav1.LocalMachine](w.scene, name).Status.Initialization.Provisioned, false)
		})
		secret := &corev1.Secret{ObjectMeta: meta(name + "-data"), Data: map[string][]byte{"value": []byte("x")}}
		w.add(secret)
		edit(w.scene, name, func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = ptr.To(secret.Name) })
		t.Logf("FIGURE bootstrap data to the machine: %s", after(name+" was told", func() bool {
			w.host.mu.Lock()
			defer w.host.mu.Unlock()
			return w.host.data[name] != ""
		}))
		w.host.set(name, func(m *sandbox.Status) { m.Bootstrap.Phase = sandbox.BootstrapSucceeded })
		t.Logf("FIGURE change of a machine to its conditions: %s",
			after(name+" is ready", func() bool { return ready(name) == clusterv1.ReadyReason }))
	}
	after("both are backends", func() bool { return w.backends() == "one two" })
}

// backends are the names that the endpoint's process has; a draining one in parentheses.
func (w *wired) backends() string {
	config, err := balancer.Load(EndpointConfig(w.state, keyOf("alpha")))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, b := range config.Backends {
		if b.Draining {
			b.Name = "(" + b.Name + ")"
		}
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// rests watches for a while that nothing happens when nothing happens.
func (w *wired) rests() {
	quiet := time.NewTicker(time.Second)
	defer quiet.Stop()
	before := reconciles(w.t)
	eventually(w.t, "the controllers come to rest", func() bool {
		<-quiet.C
		now := reconciles(w.t)
		rests := now == before
		before = now
		return rests
	})
	<-time.After(5 * time.Second)
	if n := reconciles(w.t) - before; n > 0 {
		w.t.Errorf("%v reconciliations in 5 s at rest", n)
	}
	w.t.Logf("FIGURE reconciliations until rest, one cluster with two machines: %v; then 0 in 5 s", before)
}

// fails has a machine stopped and the endpoint's process killed.
func (w *wired) fails(ready func(string) string, after func(string, func() bool) time.Duration) {
	w.host.set("two", func(m *sandbox.Status) { m.State, m.Ready = sandbox.Stopped, false })
	after("two shows that it was stopped", func() bool { return ready("two") == infrav1.StoppedReason })
	after("it is no backend", func() bool { return w.backends() == "one" })
	w.host.set("two", func(m *sandbox.Status) { m.State, m.Ready = sandbox.Running, true })
	after("it is one again", func() bool { return w.backends() == "one two" })

	file := EndpointConfig(w.state, keyOf("alpha"))
	pid, ok := balancer.Running(file)
	if !ok {
		w.t.Fatal("no process serves the endpoint")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("FIGURE endpoint process killed to another one serving: %s", after("another process serves", func() bool {
		again, ok := balancer.Running(file)
		s, err := balancer.ReadStatus(file)
		return ok && again != pid && err == nil && s.PID == again && s.Listen != ""
	}))
}

// goes deletes a machine, then the cluster.
func (w *wired) goes(after func(string, func() bool) time.Duration) {
	edit(w.scene, "two", func(m *clusterv1.Machine) { m.Finalizers = []string{"test.example/hold"} })
	w.remove(get[clusterv1.Machine](w.scene, "two"))
	after("two drains as soon as its Machine goes", func() bool { return w.backends() == "one (two)" })
	w.remove(get[infrav1.LocalMachine](w.scene, "two"))
	w.t.Logf("FIGURE deletion of a machine without connections: %s", after("two is gone", func() bool {
		return get[infrav1.LocalMachine](w.scene, "two") == nil
	}))
	after("one has no route to it", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return len(w.host.peers["one"]) == 0 && w.host.all["two"] == nil
	})

	w.remove(get[infrav1.LocalCluster](w.scene, "alpha"))
	after("the cluster waits for one", func() bool { return reason[infrav1.LocalCluster](w, "alpha") == infrav1.DeletingReason })
	w.remove(get[infrav1.LocalMachine](w.scene, "one"))
	after("the cluster is gone", func() bool { return get[infrav1.LocalCluster](w.scene, "alpha") == nil })
	if _, ok := balancer.Running(EndpointConfig(w.state, keyOf("alpha"))); ok {
		w.t.Error("the endpoint's process is left")
	}
	if left, err := os.ReadDir(endpointsFolder(w.state)); err != nil || len(left) > 0 {
		w.t.Errorf("files %v are left, %v", left, err)
	}
}

// refuses tries what the API server must not accept: another endpoint once that is in certificates, and a template that
// gives all machines one identity.
func (w *wired) refuses() {
	ctx := context.Background()
	for _, endpoint := range []infrav1.APIEndpoint{{}, {Host: "172.30.0.99", Port: 6443}, {Host: "172.30.0.10", Port: 443}} {
		served := get[infrav1.LocalCluster](w.scene, "alpha")
		served.Spec.ControlPlaneEndpoint = endpoint
		if err := w.client.Update(ctx, served); err == nil || !strings.Contains(err.Error(), "cannot change once it is served") {
			w.t.Errorf("changing the endpoint to %+v gave %v", endpoint, err)
		}
	}
	edit(w.scene, "alpha", func(lc *infrav1.LocalCluster) { lc.Spec.FailureDomains = []string{"a"} })
	template := &infrav1.LocalMachineTemplate{ObjectMeta: meta("workers")}
	template.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
	w.add(template)
	edit(w.scene, "workers", func(template *infrav1.LocalMachineTemplate) { template.Spec.Template.ObjectMeta.Labels["a"] = "c" })
	template = get[infrav1.LocalMachineTemplate](w.scene, "workers")
	template.Spec.Template.Spec.ProviderID = "local://x"
	if err := w.client.Update(ctx, template); err == nil || !strings.Contains(err.Error(), "each machine gets its own") {
		w.t.Errorf("a template with one identity for all machines gave %v", err)
	}
	w.refusesResources()
	w.refusesAddresses()
}

// refusesAddresses tries addresses that are none, and a machine whose addresses change once it has one.
func (w *wired) refusesAddresses() {
	ctx := context.Background()
	for text, want := range map[string]string{
		"172.30.1.5 172.30.1.6":   "",
		"172.30.1.5 172.30.1.5":   "Duplicate value",
		"172.30.1.5 machine":      `spec.addresses[1] in body must be of type ipv4: "machine"`,
		"fd00::1":                 "must be of type ipv4",
		"172.30.1.5/24":           "must be of type ipv4",
		"255.255.255.255 0.0.0.0": "", // the provider knows its range
	} {
		lm := &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fixed"}}
		lm.Spec.Addresses = strings.Fields(text)
		template := &infrav1.LocalMachineTemplate{ObjectMeta: lm.ObjectMeta}
		template.Spec.Template.Spec.Addresses = lm.Spec.Addresses
		for _, o := range []client.Object{lm, template} {
			err := w.client.Create(ctx, o, client.DryRunAll)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), "spec.template.", ""), want) {
				w.t.Errorf("a %T with %s gave %v", o, text, err)
			}
		}
	}
	lm := &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fixed"}}
	w.add(lm)
	change := func(to ...string) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			lm := get[infrav1.LocalMachine](w.scene, "fixed")
			lm.Spec.Addresses = to
			return w.client.Update(ctx, lm)
		})
	}
	if err := change("172.30.1.5", "172.30.1.6"); err != nil {
		w.t.Errorf("before it has an address: %v", err)
	}
	edit(w.scene, "fixed", func(lm *infrav1.LocalMachine) {
		lm.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "172.30.1.5"}}
	})
	for _, to := range [][]string{{"172.30.1.7"}, {"172.30.1.5"}, nil} {
		if err := change(to...); err == nil || !strings.Contains(err.Error(), "spec.addresses cannot change once the machine has one of them") {
			w.t.Errorf("changing to %v gave %v", to, err)
		}
	}
	if err := change("172.30.1.6", "172.30.1.5"); err != nil {
		w.t.Errorf("the same in another order: %v", err)
	}
	w.remove(lm)
}

// refusesResources tries resources that no machine can have, in a template and on a machine, and a machine whose resources change.
func (w *wired) refusesResources() {
	ctx := context.Background()
	object := func(kind, name, spec string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"default","name":%q},"spec":%s}`, infrav1.GroupVersion, kind,
			name, spec)
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			w.t.Fatal(err)
		}
		return o
	}
	for spec, want := range map[string]string{
		`{"cpu":"99m"}`: "spec.resources.cpu: Invalid value: cpu must be at least 100m",
		`{"cpu":0}`:     "cpu must be at least 100m",
		`{"cpu":"-1"}`:  "cpu must be at least 100m",
		`{"memory":"767Mi"}`: "spec.resources.memory: Invalid value: memory must be at least 768Mi, which a control plane made " +
			"by kubeadm needs",
		`{"memory":700000000}`:              "memory must be at least 768Mi",
		`{"memory":"plenty"}`:               "spec.resources.memory",
		`{}`:                                "spec.resources",
		`{"cpu":"100m","memory":805306368}`: "",
		`{"cpu":1}`:                         "",
		`{"memory":"1024Mi","cpu":"1000m"}`: "",
		`{"memory":"2G"}`:                   "",
	} {
		for kind, o := range map[string]*unstructured.Unstructured{
			"machine":  object("LocalMachine", "limited", `{"resources":`+spec+`}`),
			"template": object("LocalMachineTemplate", "limited", `{"template":{"spec":{"resources":`+spec+`}}}`),
		} {
			err := w.client.Create(ctx, o, client.DryRunAll)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), `"object": `, ""), want) {
				w.t.Errorf("a %s with %s gave %v", kind, spec, err)
			}
		}
	}
	for name, resources := range map[string]string{"limited": `{"memory":"1024Mi","cpu":"1000m"}`, "unlimited": ""} {
		o := object("LocalMachine", name, map[bool]string{true: `{}`, false: `{"resources":` + resources + `}`}[resources == ""])
		if err := w.client.Create(ctx, o); err != nil {
			w.t.Fatal(err)
		}
		for patch, want := range map[string]string{
			`{"memory":"1Gi","cpu":1}`: map[string]string{"unlimited": "cannot change"}[name],
			`{"memory":"2Gi"}`:         "spec.resources.memory cannot change: make another machine, from another template",
			`{"cpu":"2"}`:              "spec.resources.cpu cannot change",
			`null`:                     map[string]string{"limited": "cannot change"}[name],
		} {
			data := []byte(`{"spec":{"providerID":"local://` + name + `","resources":` + patch + `}}`)
			err := w.client.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, data), client.DryRunAll)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				w.t.Errorf("%s: changing resources to %s gave %v", name, patch, err)
			}
		}
		if err := w.client.Delete(ctx, o); err != nil {
			w.t.Error(err)
		}
	}
	template := object("LocalMachineTemplate", "limited", `{"template":{"spec":{"resources":{"cpu":"1"}}}}`)
	if err := w.client.Create(ctx, template); err != nil {
		w.t.Fatal(err)
	}
	data := []byte(`{"spec":{"template":{"spec":{"resources":{"cpu":"2"}}}}}`)
	if err := w.client.Patch(ctx, template, client.RawPatch(types.MergePatchType, data)); err != nil {
		w.t.Errorf("a template that asks for other resources: %v", err)
	}
}
