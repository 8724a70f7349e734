package stacked

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
)

// traffic counts requests to the API server; watches are none. conflicts are those writes of Machines' status that others contradicted.
type traffic struct {
	next         http.RoundTripper
	n, conflicts *atomic.Int64
}

func (c traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "true" {
		c.n.Add(1)
	}
	response, err := c.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusConflict && strings.Contains(r.URL.Path, "/machines/") &&
		strings.HasSuffix(r.URL.Path, "/status") {
		c.conflicts.Add(1)
	}
	return response, err
}

// startPlane starts an API server with the kinds that the controller needs, and
// the controller in a manager of its own. It returns the count of the manager's requests.
func startPlane(t *testing.T, w *world) *atomic.Int64 {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	module := strings.TrimSpace(string(dir))
	env := &envtest.Environment{ErrorIfCRDPathMissing: true, CRDDirectoryPaths: []string{
		filepath.Join("..", "..", "..", "config", "crd"),
		filepath.Join(module, "core", "config", "crd", "bases", "cluster.x-k8s.io_clusters.yaml"),
		filepath.Join(module, "core", "config", "crd", "bases", "cluster.x-k8s.io_machines.yaml"),
		filepath.Join(module, "core", "config", "crd", "bases", "cluster.x-k8s.io_machinehealthchecks.yaml"),
		filepath.Join(module, "bootstrap", "kubeadm", "config", "crd", "bases", "bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml"),
	}}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := testScheme(t)
	if w.client, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return startController(t, w, cfg)
}

// startController runs the controller until the test ends.
func startController(t *testing.T, w *world, cfg *rest.Config) *atomic.Int64 {
	t.Helper()
	log.SetLogger(logr.Discard())
	requests := &atomic.Int64{}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 100, 200
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return traffic{next, requests, &w.conflicts} })
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  testScheme(t),
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}, Unstructured: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.changed = make(chan event.GenericEvent, 100)
	w.r = &group.Controller{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Workload: w, Quorums: w, Kubeadm: w, Kind: New()}
	ctx, stop := context.WithCancel(context.Background())
	// Each test has a manager of its own.
	if err := w.r.SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: new(true)}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return requests
}

// eventually waits until something is so, and returns how long that took.
func eventually(t *testing.T, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// report lets the controller hear that its view of the workload cluster has changed.
func (w *world) report() {
	w.changed <- event.GenericEvent{Object: &clusterv1.Cluster{ObjectMeta: testCluster().ObjectMeta}}
}

// TestOnAPIServer runs the controller as a manager does: with a cache that lags
// behind its writes, and events that bring its turns about.
func TestOnAPIServer(t *testing.T) {
	w := &world{t: t, nextID: 1}
	requests := startPlane(t, w)
	ctx := t.Context()
	create := func(o client.Object) {
		t.Helper()
		o.SetUID("")
		o.SetResourceVersion("")
		if err := w.client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	cluster, kcp := testCluster(), testKCP(3)
	status := cluster.Status
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
		Name: "demo"}
	create(cluster)
	cluster.Status = status
	if err := w.client.Status().Update(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	template := &infrav1.LocalMachineTemplate{}
	template.Name, template.Namespace = "demo-machines", "default"
	create(template)
	kcp.Finalizers = nil
	kcp.OwnerReferences[0].UID = cluster.UID
	create(kcp)

	t.Logf("the first machine after %v", eventually(t, "one machine", func() bool { return len(w.machineNames()) == 1 }))
	w.mu.Lock()
	w.init = true
	w.mu.Unlock()
	w.appear("demo-cp-1")
	w.report()
	took := eventually(t, "three machines", func() bool { return len(w.machineNames()) == 3 })
	t.Logf("two more, once the first has initialised the cluster, after %v", took)
	for _, name := range []string{"demo-cp-2", "demo-cp-3"} {
		w.appear(name)
	}
	w.report()
	eventually(t, "rest", func() bool { return w.kcp().Status.Plan.Step == string(plan.Nothing) })
	if got := w.objects(); got != "[demo-cp-1 demo-cp-2 demo-cp-3] [demo-cp-1 demo-cp-2 demo-cp-3] [demo-cp-1 demo-cp-2 demo-cp-3]" {
		t.Errorf("there are %s", got)
	}

	// At rest, events bring turns about, and turns cost nothing.
	seen := w.asked()
	eventually(t, "a turn", func() bool { w.report(); return w.asked() > seen })
	before, seen := requests.Load(), w.asked()
	for range 20 {
		w.report()
		eventually(t, "a turn", func() bool { return w.asked() > seen })
		seen = w.asked()
	}
	if n := requests.Load() - before; n > 2 {
		t.Errorf("%d requests for 20 turns at rest", n)
	}
	w.othersWriteConditions()
}

// othersWriteConditions: conditions that others write stay as they are, however often these write, and do not keep ours from being written.
func (w *world) othersWriteConditions() {
	key := client.ObjectKey{Namespace: "default", Name: "demo-cp-1"}
	get := func() *clusterv1.Machine {
		m := &clusterv1.Machine{}
		if err := w.client.Get(w.t.Context(), key, m); err != nil {
			w.t.Fatal(err)
		}
		return m
	}
	write := func(n int) {
		m := get()
		after := m.DeepCopy()
		conditions.Set(after, metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "Written", Message: strconv.Itoa(n)})
		if err := w.client.Status().Patch(w.t.Context(), after, client.MergeFrom(m)); err != nil {
			w.t.Fatal(err)
		}
	}
	write(0)
	w.mu.Lock()
	w.view.Pods = slices.DeleteFunc(slices.Clone(w.view.Pods), func(p corev1.Pod) bool { return p.Name == "etcd-demo-cp-1" })
	w.mu.Unlock()
	w.report()
	n := 0
	eventually(w.t, "our condition", func() bool {
		n++
		write(n)
		return conditions.IsFalse(get(), upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition)
	})
	if n := w.conflicts.Load(); n > 0 {
		w.t.Errorf("%d writes of conditions were contradicted by others", n)
	}
	if c := conditions.Get(get(), "Theirs"); c == nil || c.Message != strconv.Itoa(n) {
		w.t.Errorf("what others wrote last, %d, is now %+v", n, c)
	}
}

// asked returns how often a turn ended.
func (w *world) asked() int {
	defer w.locked()()
	return w.wanted
}
