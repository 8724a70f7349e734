package stacked

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
)

// A fleet is many managed clusters, one a namespace, of which some do not answer.
type fleet struct {
	client client.Client
	r      *group.Controller
	queue  workqueue.TypedDelayingInterface[ctrl.Request]

	mu sync.Mutex
	// away are the namespaces of those that do not answer; up of those whose first machine is there.
	away, up map[string]bool
	// changed is when each was told to grow, and grew when the next machine was made.
	changed, grew map[string]time.Time
	failures      int
}

func (f *fleet) Want(client.ObjectKey, bool)          {}
func (f *fleet) Rest(client.ObjectKey)                {}
func (f *fleet) Forget(client.ObjectKey)              {}
func (f *fleet) Own(client.ObjectKey, workload.Mine)  {}
func (f *fleet) Config(client.ObjectKey) *rest.Config { return nil }
func (f *fleet) Events() <-chan event.GenericEvent    { return nil }
func (f *fleet) is(of map[string]bool, ns string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return of[ns]
}

func (f *fleet) Dial(client.ObjectKey, string, string, int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
}

func (f *fleet) View(key client.ObjectKey) workload.View {
	v := workload.View{Why: "no answer in time"}
	if f.is(f.up, key.Namespace) {
		v.Nodes, v.Pods = []corev1.Node{testNode("demo-cp-1")}, testPods("demo-cp-1")
		if v.Reachable = !f.is(f.away, key.Namespace); v.Reachable {
			v.Why = ""
		}
	}
	return v
}

func (f *fleet) Initialised(context.Context, *clusterv1.Cluster, bool) (string, error) {
	return "", nil
}

// NewToken implements observe.KubeadmFiles.
func (f *fleet) NewToken(context.Context, *clusterv1.Cluster) (string, error) {
	return "abcdef.0123456789abcdef", nil
}

// DropTokens implements observe.KubeadmFiles.
func (f *fleet) DropTokens(_ context.Context, _ *clusterv1.Cluster, _ map[string]bool) error {
	return nil
}

func (f *fleet) Behind(context.Context, *clusterv1.Cluster, kubeadm.Wanted) (kubeadm.Behind, error) {
	return kubeadm.Behind{}, nil
}

func (f *fleet) Write(context.Context, *clusterv1.Cluster, kubeadm.Wanted, string) error { return nil }

func (f *fleet) Data(_ context.Context, cluster *clusterv1.Cluster) (observe.DataKeeper, error) {
	return fleetEtcd{f, cluster.Namespace}, nil
}

func (f *fleet) Of(_ context.Context, cluster *clusterv1.Cluster) (observe.Quorum, error) {
	return fleetEtcd{f, cluster.Namespace}, nil
}

// fleetEtcd is the etcd of one cluster of a fleet.
type fleetEtcd struct {
	*fleet
	ns string
}

func (e fleetEtcd) Survey(ctx context.Context, _ []etcd.Target) etcd.Survey {
	if e.is(e.away, e.ns) {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		return etcd.Survey{Why: "no member returned its list of members"}
	}
	return etcd.Survey{Known: true, Agreed: true, Members: []etcd.Member{{ID: 1, Name: "demo-cp-1", Health: plan.Healthy, Leader: true}}}
}

// Glance implements observe.Quorum.
func (e fleetEtcd) Glance(context.Context, etcd.Target, etcd.Survey) bool { return !e.is(e.away, e.ns) }

func (e fleetEtcd) MoveLeader(context.Context, []etcd.Target, uint64) error      { return nil }
func (e fleetEtcd) Promote(context.Context, []etcd.Target, uint64) error         { return nil }
func (e fleetEtcd) EnableDowngrade(context.Context, []etcd.Target, string) error { return nil }
func (e fleetEtcd) CancelDowngrade(context.Context, []etcd.Target) error         { return nil }
func (e fleetEtcd) Compact(context.Context, []etcd.Target, int64) error          { return nil }
func (e fleetEtcd) Defragment(context.Context, []etcd.Target, uint64) error      { return nil }
func (e fleetEtcd) Compare(context.Context, []etcd.Target, etcd.Survey) etcd.Comparison {
	return etcd.Comparison{Revision: 1}
}
func (e fleetEtcd) Disarm(context.Context, []etcd.Target) error               { return nil }
func (e fleetEtcd) AddPlaceholder(context.Context, []etcd.Target) error       { return nil }
func (e fleetEtcd) RemoveMember(context.Context, []etcd.Target, uint64) error { return nil }

func newFleet(b testing.TB, size, away int) *fleet {
	b.Helper()
	f := &fleet{away: map[string]bool{}, up: map[string]bool{}, changed: map[string]time.Time{}, grew: map[string]time.Time{}}
	objects := []client.Object{crd("localmachinetemplates.infrastructure.cluster.x-k8s.io"),
		crd("localmachines.infrastructure.cluster.x-k8s.io")}
	for i := range size {
		template := &infrav1.LocalMachineTemplate{}
		template.Name = "demo-machines"
		for _, o := range []client.Object{testCluster(), testKCP(1), template} {
			o.SetNamespace(f.name(i))
			objects = append(objects, o)
		}
	}
	f.client = fake.NewClientBuilder().WithScheme(testScheme(b)).WithObjects(objects...).
		WithStatusSubresource(&controlplanev1.KubeadmControlPlane{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: f.create}).Build()
	f.r = &group.Controller{Client: f.client, APIReader: f.client, Workload: f, Recorder: events.NewFakeRecorder(0), Quorums: f, Kubeadm: f,
		Kind: New(), Wakes: make(chan event.GenericEvent)}
	f.r.Recorder.(*events.FakeRecorder).Events = nil
	for i := range size {
		ns := f.name(i)
		for range 12 {
			if _, err := f.r.Reconcile(b.Context(), f.request(ns)); err != nil {
				b.Fatal(err)
			}
		}
		f.up[ns], f.away[ns] = true, false
		for range 4 {
			if _, err := f.r.Reconcile(b.Context(), f.request(ns)); err != nil {
				b.Fatal(err)
			}
		}
		f.away[ns] = i < away
	}
	return f
}

func (f *fleet) name(i int) string { return fmt.Sprintf("c%03d", i) }

func (f *fleet) request(ns string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: kcpKey.Name}}
}

// create notes when a second machine is made.
func (f *fleet) create(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
	if _, is := o.(*clusterv1.Machine); is && o.GetName() != "demo-cp-1" {
		f.mu.Lock()
		if f.grew[o.GetNamespace()].IsZero() {
			f.grew[o.GetNamespace()] = time.Now()
		}
		f.mu.Unlock()
	}
	return birth(ctx, c, o, options...)
}

// work takes turns until ctx ends, as one of the controller's workers.
func (f *fleet) work(ctx context.Context) {
	for {
		request, stop := f.queue.Get()
		if stop {
			return
		}
		result, err := f.r.Reconcile(ctx, request)
		if err != nil {
			f.mu.Lock()
			f.failures++
			f.mu.Unlock()
			result.RequeueAfter = 50 * time.Millisecond
		}
		f.queue.Done(request)
		if result.RequeueAfter > 0 {
			f.queue.AddAfter(request, result.RequeueAfter)
		}
	}
}

// grow tells a cluster to have three machines, whose first step is to make the second.
func (f *fleet) grow(b testing.TB, ns string) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := f.client.Get(b.Context(), f.request(ns).NamespacedName, kcp); err != nil {
		b.Fatal(err)
	}
	before := kcp.DeepCopy()
	kcp.Spec.Replicas = ptr.To[int32](3)
	if err := f.client.Patch(b.Context(), kcp, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	f.mu.Lock()
	f.changed[ns] = time.Now()
	f.mu.Unlock()
	f.queue.Add(f.request(ns))
}

// delays returns how long each cluster that answers took for its step, in order; those that took none are not in it.
func (f *fleet) delays() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []time.Duration
	for ns, at := range f.changed {
		if grew := f.grew[ns]; !grew.IsZero() {
			all = append(all, grew.Sub(at))
		}
	}
	slices.Sort(all)
	return all
}

// fleetSize and fleetAway are how many clusters a fleet has, and how many of them do not answer.
const fleetSize, fleetAway = 100, 30

// runFleet lets a fleet be worked on, and returns the delay of the steps of those that answer, from the change of a
// spec to the machine that is made for it, in order.
func runFleet(tb testing.TB, workers int) []time.Duration {
	tb.Helper()
	f := newFleet(tb, fleetSize, fleetAway)
	f.queue = workqueue.NewTypedDelayingQueue[ctrl.Request]()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { f.work(ctx) })
	}
	running.Go(func() {
		for {
			select {
			case e := <-f.r.Wakes:
				f.queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range fleetSize {
		f.queue.Add(f.request(f.name(i)))
	}
	<-time.After(5 * time.Second) // after which all have been looked at
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for i := fleetAway; i < fleetSize; i++ {
		<-pace.C
		f.grow(tb, f.name(i))
	}
	for end := time.Now().Add(30 * time.Second); len(f.delays()) < fleetSize-fleetAway && time.Now().Before(end); {
		<-pace.C
	}
	cancel()
	f.queue.ShutDown()
	running.Wait()
	for i := range fleetSize {
		f.r.Forget(f.request(f.name(i)).NamespacedName) // which ends the surveys that run
	}
	all := f.delays()
	if len(all) != fleetSize-fleetAway || f.failures > 0 {
		tb.Fatalf("%d of %d steps were taken, %d turns failed", len(all), fleetSize-fleetAway, f.failures)
	}
	return all
}

// TestFleet runs a fleet in a time of its own, in which computing takes none: what is left are the waits that clusters
// that do not answer cause for the others. Ten workers are enough for a hundred clusters then.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := runFleet(t, 10)
		median, worst := all[len(all)/2], all[len(all)-1]
		t.Logf("%d clusters, %d of which do not answer, 10 workers: the others' steps after %s in the median, %s at worst", fleetSize, fleetAway,
			median, worst)
		if median > 500*time.Millisecond || worst > 2*time.Second {
			t.Error("at most 500 ms and 2 s are wanted")
		}
	})
}

// BenchmarkFleet reports the same in the time of this machine, computing included: also that of the
// management cluster in memory, which costs most.
func BenchmarkFleet(b *testing.B) {
	for b.Loop() {
		all := runFleet(b, 100)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
		b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "worst-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// DropPods implements observe.KubeadmFiles.
func (f *fleet) DropPods(context.Context, *clusterv1.Cluster, []*corev1.Pod) error { return nil }

// DropNodes implements observe.KubeadmFiles.
func (f *fleet) DropNodes(context.Context, *clusterv1.Cluster, observe.GoneMachines) error {
	return nil
}
