package provider

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// TestMain lets this test binary stand for quorate-node, so that endpoints are real processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "endpoint" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := balancer.Run(ctx, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// host has machines in memory. It behaves as a sandbox.Host does, but nothing runs.
type host struct {
	mu       sync.Mutex
	all      map[string]*sandbox.Status
	data     map[string]string
	peers    map[string]map[netip.Prefix]netip.Addr
	ran      map[string][]string
	ensured  int
	refusing error // what Ensure and Delete return, when set
	changed  chan string
	onExec   func(name string) // called when something is run on a machine, one at a time, when set
}

func newHost() *host {
	return &host{all: map[string]*sandbox.Status{}, data: map[string]string{}, peers: map[string]map[netip.Prefix]netip.Addr{},
		ran: map[string][]string{}}
}

// Exec imports images, which is all that this package runs in machines: it notes them.
func (h *host) Exec(_ context.Context, name string, argv []string, stdio sandbox.Stdio) (int, error) {
	data, err := io.ReadAll(stdio.In)
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.onExec != nil {
		h.onExec(name)
	}
	if _, ok := h.all[name]; !ok {
		return 0, fmt.Errorf("machine %s does not run", name)
	}
	if h.refusing != nil {
		fmt.Fprint(stdio.Err, h.refusing)
		return 1, nil
	}
	h.ran[name] = append(h.ran[name], strings.Join(argv, " ")+" < "+string(data))
	return 0, nil
}

func (h *host) EnsureNetwork(context.Context) error { return nil }
func (h *host) BridgeName() string                  { return "qrt-test" }
func (h *host) Changed() <-chan string              { return h.changed }

func (h *host) Ensure(_ context.Context, spec sandbox.Spec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ensured++
	if h.refusing != nil {
		return h.refusing
	}
	if s, ok := h.all[spec.Name]; ok {
		if s.Owner != "" && s.Owner != spec.Owner {
			return fmt.Errorf("machine %s: was made for %s", spec.Name, s.Owner)
		}
		s.Owner = spec.Owner
		if s.State == sandbox.Dead {
			s.State = sandbox.Running
		}
		return nil
	}
	h.all[spec.Name] = &sandbox.Status{Spec: spec, State: sandbox.Running}
	return nil
}

func (h *host) Get(name string) (sandbox.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.all[name]; ok {
		return *s, nil
	}
	return sandbox.Status{}, fmt.Errorf("machine %s: %w", name, sandbox.ErrNotFound)
}

func (h *host) List() ([]sandbox.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []sandbox.Status
	for _, name := range slices.Sorted(maps.Keys(h.all)) {
		all = append(all, *h.all[name])
	}
	return all, nil
}

func (h *host) Bootstrap(_ context.Context, name string, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.data[name]; ok {
		panic("the bootstrap data is handed over twice")
	}
	h.data[name] = string(data)
	return nil
}

func (h *host) SetPeers(_ context.Context, name string, peers map[netip.Prefix]netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers[name] = peers
	return nil
}

func (h *host) Delete(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusing != nil {
		return h.refusing
	}
	delete(h.all, name)
	return nil
}

// set changes what a machine is doing.
func (h *host) set(name string, change func(*sandbox.Status)) {
	h.mu.Lock()
	change(h.all[name])
	h.mu.Unlock()
	if h.changed != nil {
		h.changed <- name
	}
}

// balancers remembers what endpoints were asked to do.
type balancers struct {
	serving  map[client.ObjectKey]balancer.Config
	busy     map[string]bool // backends with connections
	refusing error
}

func (b *balancers) serve(_ context.Context, key client.ObjectKey, c balancer.Config) error {
	if b.refusing != nil {
		return b.refusing
	}
	b.serving[key] = c
	return nil
}

func (b *balancers) stop(_ context.Context, key client.ObjectKey) error {
	if b.refusing != nil {
		return b.refusing
	}
	delete(b.serving, key)
	return nil
}

func (b *balancers) backends(key client.ObjectKey) []balancer.Backend { return b.serving[key].Backends }

func (b *balancers) drained(key client.ObjectKey, backend string) bool {
	if _, ok := b.serving[key]; !ok {
		return true
	}
	return !b.busy[backend]
}

// scene is a provider over an API server and a host in memory.
type scene struct {
	t         *testing.T
	client    client.Client
	host      *host
	balancers *balancers
	clusters  *clusterReconciler
	machines  *machineReconciler
	built     map[string]*artifacts.Set // what the builder has
	writes    int
}

var network = netip.MustParsePrefix("172.30.0.0/16")

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, upgradev1.AddToScheme,
		etcdclusterv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &scene{t: t, host: newHost(), balancers: &balancers{serving: map[client.ObjectKey]balancer.Config{}, busy: map[string]bool{}},
		built: map[string]*artifacts.Set{"v1.36.3": {Kubernetes: "v1.36.3"}}}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&infrav1.LocalCluster{}, &infrav1.LocalMachine{}, &clusterv1.Cluster{}, &clusterv1.Machine{},
			&upgradev1.NodeUpgrade{}).
		WithInterceptorFuncs(interceptor.Funcs{
			// A cache has no order.
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, list, opts...)
				if all, ok := list.(*infrav1.LocalMachineList); ok {
					slices.Reverse(all.Items)
				}
				return err
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				s.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				s.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	s.restart()
	return s
}

// restart begins with new reconcilers, as after the death of the process: only objects, machines and endpoints remain.
func (s *scene) restart() {
	s.clusters = &clusterReconciler{client: s.client, machines: s.host, network: network, endpoints: s.balancers,
		given: map[client.ObjectKey]netip.Addr{}}
	s.machines = &machineReconciler{
		client: s.client, machines: s.host, endpoints: s.balancers, claims: newClaims(network), told: map[client.ObjectKey]bool{},
		builds: newBuilds(func(version string) (*artifacts.Set, error) {
			if set, ok := s.built[version]; ok {
				return set, nil
			}
			return nil, fmt.Errorf("version %s cannot be built", version)
		}, func() {}),
		booted: time.Now().Add(-time.Hour),
	}
	for version := range s.built {
		s.await(version)
	}
}

// await waits for the background build of a version.
func (s *scene) await(version string) {
	s.t.Helper()
	eventually(s.t, "the build of "+version+" has ended", func() bool {
		set, err := s.machines.builds.get(version)
		return set != nil || err != nil
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); !done(); <-tick.C {
		if time.Since(start) > 5*time.Minute { // of a host under load
			t.Fatalf("not after five minutes: %s", what)
		}
	}
}

// settle reconciles an object until that writes nothing any more, and returns the last result.
func (s *scene) settle(r reconcile.Reconciler, name string) (ctrl.Result, error) {
	s.t.Helper()
	for range 10 {
		before := s.writes
		result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: keyOf(name)})
		if err != nil || s.writes == before {
			return result, err
		}
	}
	s.t.Fatalf("reconciling %s writes for ever", name)
	return ctrl.Result{}, nil
}

// cluster settles a LocalCluster and returns it; nil when it is gone.
func (s *scene) cluster(name string) *infrav1.LocalCluster {
	s.t.Helper()
	if _, err := s.settle(s.clusters, name); err != nil {
		s.t.Fatalf("reconciling LocalCluster %s: %v", name, err)
	}
	return get[infrav1.LocalCluster](s, name)
}

// machine settles a LocalMachine and returns it; nil when it is gone.
func (s *scene) machine(name string) *infrav1.LocalMachine {
	s.t.Helper()
	if _, err := s.settle(s.machines, name); err != nil {
		s.t.Fatalf("reconciling LocalMachine %s: %v", name, err)
	}
	return get[infrav1.LocalMachine](s, name)
}

// keyOf reads "namespace/name"; without a namespace it is default.
func keyOf(name string) client.ObjectKey {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return client.ObjectKey{Namespace: namespace, Name: rest}
	}
	return client.ObjectKey{Namespace: "default", Name: name}
}

// get reads an object; nil when there is none.
func get[T any, P interface {
	*T
	client.Object
}](
	s *scene, name string,
) P {
	s.t.Helper()
	o := P(new(T))
	if err := s.client.Get(context.Background(), keyOf(name), o); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	} else if err != nil {
		return nil
	}
	return o
}

// edit changes an object as somebody else would, status included.
func edit[T any, P interface {
	*T
	client.Object
}](
	s *scene, name string, change func(P),
) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := get[T, P](s, name)
		change(o)
		return s.client.Update(context.Background(), o)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := get[T, P](s, name)
		change(o)
		return s.client.Status().Update(context.Background(), o)
	})
	if client.IgnoreNotFound(err) != nil { // a kind without status
		s.t.Fatal(err)
	}
}

func (s *scene) add(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := s.client.Create(context.Background(), o); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) remove(o client.Object) {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func meta(name string, labels ...string) metav1.ObjectMeta {
	key := keyOf(name)
	m := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid-" + "x", Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		m.Labels[k] = v
	}
	return m
}

func owned(o client.Object, kind, name string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: "uid-x"}})
}

// aCluster is a Cluster with its LocalCluster.
func aCluster(name string) (*clusterv1.Cluster, *infrav1.LocalCluster) {
	c := &clusterv1.Cluster{ObjectMeta: meta(name)}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
		Name: c.Name}
	lc := &infrav1.LocalCluster{ObjectMeta: meta(name, clusterv1.ClusterNameLabel+"="+c.Name)}
	owned(lc, "Cluster", c.Name)
	return c, lc
}

// aMachine is a Machine of a control plane with its LocalMachine.
func aMachine(name, cluster string) (*clusterv1.Machine, *infrav1.LocalMachine) {
	m := &clusterv1.Machine{ObjectMeta: meta(name, clusterv1.ClusterNameLabel+"="+cluster, clusterv1.MachineControlPlaneLabel+"=")}
	m.Spec = clusterv1.MachineSpec{ClusterName: cluster, Version: "v1.36.3", FailureDomain: "a"}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine",
		Name: m.Name}
	lm := &infrav1.LocalMachine{ObjectMeta: meta(name, clusterv1.ClusterNameLabel+"="+cluster)}
	owned(lm, "Machine", m.Name)
	return m, lm
}

// provisioned says what Cluster API's core says once the endpoint is there.
func provisioned(c *clusterv1.Cluster) *clusterv1.Cluster {
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	return c
}

// wantCondition compares one condition: "True Reason", or "False Reason part of the message".
func wantCondition(t *testing.T, o conditions.Getter, name, want string) {
	t.Helper()
	c := conditions.Get(o, name)
	if c == nil {
		t.Errorf("there is no condition %s, want %q", name, want)
		return
	}
	fields := strings.SplitN(want, " ", 3)
	part := ""
	if len(fields) == 3 {
		part = fields[2]
	}
	if string(c.Status) != fields[0] || c.Reason != fields[1] || !strings.Contains(c.Message, part) || part == "" && c.Message != "" {
		t.Errorf("condition %s is \"%s %s %s\", want %q", name, c.Status, c.Reason, c.Message, want)
	}
}
