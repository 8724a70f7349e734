package stacked

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// A world is a management cluster in memory, and one managed cluster that does
// what the test lets it do.
type world struct {
	tokens         int      // bootstrap tokens that were made
	failToken      error    // what making one ends with
	onToken        func()   // what happens while one is made
	dropped        []string // bootstrap tokens, by their IDs
	droppedNodes   []string
	droppedPods    []string // each with the number of machines then
	failDrop       error    // what removing them ends with
	wroteAddons    bool
	config, addons string // in what kubeadm's files in the cluster are behind
	// permissions are missing, and unusable and refused are what only a person can mend of kubeadm's files.
	permissions, unusable, refused string
	// proxy and dns are whether kubeadm's add-ons work.
	proxy, dns kubeadm.AddonHealth
	// endpoints are what those of an external etcd say, by their URLs; unasked is why they cannot be asked.
	endpoints map[string]etcd.EndpointHealth
	unasked   error
	// forwarded: etcd is reached by port-forwards alone, which are forbidden without the permissions.
	forwarded bool
	t         *testing.T
	// mu guards what a controller in the background asks for.
	mu      sync.Mutex
	changed chan event.GenericEvent
	client  client.WithWatch
	r       *group.Controller
	view    workload.View
	members []etcd.Member
	nextID  uint64
	surveys int
	// relieved is what was done for space, and compacted whether etcd was.
	relieved []string
	// compared is what a comparison of the data finds, and comparisons how many there were.
	compared    etcd.Comparison
	comparisons int
	// comparing: one goes on, which takes that long; disturbed is how often connections were closed meanwhile.
	comparing bool
	takes     time.Duration
	disturbed int
	compacted bool
	// glanced are the members that were asked between turns.
	glanced  []string
	init     bool // kubeadm has initialised the cluster
	recorded chan string
	// wanted, forgotten and rested count what was asked of the connections.
	wanted, forgotten, rested int
	conflicts                 atomic.Int64
	// onSurvey is called before each survey, if set, with how many there were.
	onSurvey func(int)
	// failChange fails changes of members.
	failChange error
	// serve answers connections to a port of a Node; nil: nobody listens.
	serve func(node string, port int) (net.Conn, error)
	// failBehind fails the question for kubeadm's files.
	failBehind error
}

var (
	kcpKey     = client.ObjectKey{Namespace: "default", Name: "demo-cp"}
	clusterKey = client.ObjectKey{Namespace: "default", Name: "demo"}
)

// kind is the kind that owns everything made here.
const kind = "KubeadmControlPlane"

// controllerRef makes the control plane the controller of an object.
func controllerRef(kcp *controlplanev1.KubeadmControlPlane) metav1.OwnerReference {
	return *metav1.NewControllerRef(kcp, controlplanev1.GroupVersion.WithKind(kind))
}

// begin makes a turn of what the objects themselves say.
func begin(
	kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster, ours []*clusterv1.Machine, workers []string, now time.Time,
) *group.Turn {
	return (&group.Controller{Kind: New()}).Begin(kcp, cluster, observe.Machines{Ours: ours, Workers: workers}, now)
}

func testScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
		infrav1.AddToScheme, upgradev1.AddToScheme, runtimev1.AddToScheme,
		backupv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// crd is what the contract of Cluster API wants to know of a kind: which version to use.
func crd(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1alpha1"}}}
}

func testCluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name, UID: "cluster-uid"}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: kind,
		Name: kcpKey.Name}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.Status.FailureDomains = []clusterv1.FailureDomain{
		{Name: "b", ControlPlane: ptr.To(true)}, {Name: "w"}, {Name: "a", ControlPlane: ptr.To(true)}, {Name: "c", ControlPlane: ptr.To(true)},
	}
	return c
}

func testKCP(replicas int32) *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: kcpKey.Namespace, Name: kcpKey.Name, UID: "kcp-uid", Generation: 1,
		CreationTimestamp: metav1.Now(),
		Finalizers:        []string{upstream.KubeadmControlPlaneFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: clusterKey.Name,
			UID: "cluster-uid"}},
	}}
	kcp.Spec.Replicas = &replicas
	kcp.Spec.Version = "v1.36.3"
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachineTemplate", Name: "demo-machines",
	}
	return kcp
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, nextID: 1, recorded: make(chan string, 1000)}
	template := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-machines"}}
	objects = append(objects, template, crd("localmachinetemplates.infrastructure.cluster.x-k8s.io"),
		crd("localmachines.infrastructure.cluster.x-k8s.io"))
	w.client = fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
		WithStatusSubresource(&controlplanev1.KubeadmControlPlane{}, &clusterv1.Machine{}, &clusterv1.Cluster{}, &upgradev1.NodeUpgrade{},
			&upgradev1.ControlPlaneUpgrade{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: birth, SubResourcePatch: grouptest.StatusPatch}).Build()
	w.use(w.client)
	return w
}

// birth gives a new object what an API server gives it.
func birth(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
	o.SetUID(types.UID("uid-" + o.GetName()))
	o.SetCreationTimestamp(metav1.Now())
	return c.Create(ctx, o, options...)
}

// use makes a new controller, as after a restart, over a client.
func (w *world) use(c client.Client) {
	recorder := events.NewFakeRecorder(1000)
	recorder.Events = w.recorded
	w.r = &group.Controller{Client: c, APIReader: c, Workload: w, Recorder: recorder, Quorums: w, Kubeadm: w, Kind: New()}
}

// intercept lets the controller's requests pass through the given functions.
func (w *world) intercept(f interceptor.Funcs) { w.use(interceptor.NewClient(w.client, f)) }

func (w *world) Want(client.ObjectKey, bool) { defer w.locked()(); w.wanted++ }
func (w *world) Rest(client.ObjectKey) {
	defer w.locked()()
	w.rested++
	if w.comparing {
		w.disturbed++
	}
}

func (w *world) Forget(client.ObjectKey)              { defer w.locked()(); w.forgotten++ }
func (w *world) Own(client.ObjectKey, workload.Mine)  {}
func (w *world) Config(client.ObjectKey) *rest.Config { return nil }
func (w *world) View(client.ObjectKey) workload.View {
	defer w.locked()()
	return w.view
}
func (w *world) Dial(_ client.ObjectKey, node, _ string, port int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		defer w.locked()()
		if w.serve == nil {
			return nil, net.ErrClosed
		}
		return w.serve(node, port)
	}
}
func (w *world) Events() <-chan event.GenericEvent { return w.changed }
func (w *world) Data(context.Context, *clusterv1.Cluster) (observe.DataKeeper, error) {
	return w, nil
}
func (w *world) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) {
	return w, nil
}
func (w *world) Initialised(context.Context, *clusterv1.Cluster, bool) (string, error) {
	defer w.locked()()
	if !w.init {
		return "kubeadm init has not finished", nil
	}
	return "", nil
}

// NewToken implements observe.KubeadmFiles.
func (w *world) NewToken(context.Context, *clusterv1.Cluster) (string, error) {
	if w.onToken != nil {
		w.onToken()
	}
	defer w.locked()()
	if w.failToken != nil {
		return "", w.failToken
	}
	w.tokens++
	return fmt.Sprintf("%06d.0123456789abcdef", w.tokens), nil
}

// DropTokens implements observe.KubeadmFiles.
func (w *world) DropTokens(_ context.Context, _ *clusterv1.Cluster, ids map[string]bool) error {
	defer w.locked()()
	for id := range ids {
		w.dropped = append(w.dropped, id)
	}
	return w.failDrop
}

// Ask implements observe.EtcdEndpoints.
func (w *world) Ask(_ context.Context, _ *clusterv1.Cluster, endpoints []string) (said []etcd.EndpointHealth, err error) {
	defer w.locked()()
	for _, at := range endpoints {
		said = append(said, w.endpoints[at])
	}
	return said, w.unasked
}

// Behind implements observe.KubeadmFiles.
func (w *world) Behind(context.Context, *clusterv1.Cluster, kubeadm.Wanted) (kubeadm.Behind, error) {
	defer w.locked()()
	return kubeadm.Behind{Permissions: w.permissions, Config: w.config, Addons: w.addons, ConfigUnusable: w.unusable, AddonsRefused: w.refused,
		Proxy: w.proxy, DNS: w.dns}, w.failBehind
}

func (w *world) Write(_ context.Context, _ *clusterv1.Cluster, _ kubeadm.Wanted, chore string) error {
	defer w.locked()()
	switch chore {
	case observe.ChorePermissions:
		w.permissions = ""
	case observe.ChoreKubeadmConfig:
		w.config = ""
	case observe.ChoreAddons:
		w.addons, w.wroteAddons = "", true
	}
	return nil
}

func (w *world) locked() func() {
	w.mu.Lock()
	return w.mu.Unlock
}

func (w *world) Survey(_ context.Context, targets []etcd.Target) etcd.Survey {
	defer w.locked()()
	if w.onSurvey != nil {
		w.onSurvey(w.surveys)
	}
	w.surveys++
	if w.forwarded && w.permissions != "" {
		return etcd.Survey{Why: "forbidden: nodes/proxy"}
	}
	s := etcd.Survey{Known: len(targets) > 0, Agreed: true}
	for _, m := range w.members {
		if !slices.ContainsFunc(targets, func(t etcd.Target) bool { return t.Name == m.Name }) {
			m.Health = plan.Unknown
		}
		s.Members = append(s.Members, m)
	}
	return s
}

// Glance implements observe.Quorum.
func (w *world) Glance(_ context.Context, target etcd.Target, last etcd.Survey) bool {
	defer w.locked()()
	w.glanced = append(w.glanced, target.Name)
	same := func(a, b etcd.Member) bool {
		return a.ID == b.ID && a.Leader == b.Leader && a.Learner == b.Learner && len(a.Alarms)+len(b.Alarms) == 0
	}
	return slices.EqualFunc(w.members, last.Members, same)
}

func (w *world) MoveLeader(_ context.Context, _ []etcd.Target, to uint64) error {
	defer w.locked()()
	for i := range w.members {
		w.members[i].Leader = w.members[i].ID == to
	}
	return w.failChange
}

func (w *world) Promote(context.Context, []etcd.Target, uint64) error         { return nil }
func (w *world) EnableDowngrade(context.Context, []etcd.Target, string) error { return nil }
func (w *world) CancelDowngrade(context.Context, []etcd.Target) error         { return nil }

// AddPlaceholder implements observe.Quorum: etcd takes one learner at a time.
func (w *world) AddPlaceholder(context.Context, []etcd.Target) error {
	defer w.locked()()
	if w.failChange != nil || slices.ContainsFunc(w.members, func(m etcd.Member) bool { return m.Learner }) {
		return w.failChange
	}
	w.members = append(w.members, etcd.Member{ID: 999, Learner: true, PeerURLs: []string{"https://quorate-placeholder@127.0.0.1:9"}})
	return nil
}

func (w *world) RemoveMember(_ context.Context, _ []etcd.Target, id uint64) error {
	defer w.locked()()
	if w.failChange == nil {
		w.members = slices.DeleteFunc(w.members, func(m etcd.Member) bool { return m.ID == id })
	}
	return w.failChange
}

// turn takes one turn, which must not fail.
func (w *world) turn() ctrl.Result {
	w.t.Helper()
	for {
		time.Sleep(w.r.Memories.Early(kcpKey, time.Now())) // as the queue lets it wait
		result, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
		if err != nil {
			w.t.Fatalf("turn failed: %v", err)
		}
		if w.kcp() == nil {
			return result
		}
		m := w.r.Memories.Of(kcpKey)
		if m.Surveys.Running() == nil {
			return result
		}
		<-m.Surveys.Running() // which brings about the next turn
	}
}

// settle takes turns until one writes nothing, and returns what is decided then.
func (w *world) settle() controlplanev1.PlanStatus {
	w.t.Helper()
	for range 50 {
		before := w.kcp()
		result := w.turn()
		after := w.kcp()
		if after == nil {
			return controlplanev1.PlanStatus{}
		}
		if result.RequeueAfter == observe.SoonAfterAct {
			continue
		}
		if before.ResourceVersion == after.ResourceVersion && !actsIn(after.Status.Plan) {
			return after.Status.Plan
		}
	}
	w.t.Fatalf("did not settle: %+v", w.kcp().Status.Plan)
	return controlplanev1.PlanStatus{}
}

func actsIn(p controlplanev1.PlanStatus) bool {
	return p.Step != string(plan.Wait) && p.Step != string(plan.Nothing)
}

// kcp reads the control plane; nil when it is gone.
func (w *world) kcp() *controlplanev1.KubeadmControlPlane {
	w.t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	err := w.client.Get(context.Background(), kcpKey, kcp)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return kcp
}

// machines reads the Machines, by name.
func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) machineNames() []string {
	var names []string
	for _, m := range w.machines() {
		names = append(names, m.Name)
	}
	return names
}

func (w *world) machine(name string) *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// names lists the objects of a kind.
func (w *world) names(list client.ObjectList) []string {
	w.t.Helper()
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	items, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, item := range items["items"].([]any) {
		u := unstructured.Unstructured{Object: item.(map[string]any)}
		names = append(names, u.GetName())
	}
	return names
}

// claim does what the core controllers do soon after a Machine was made: it owns
// its infrastructure and its configuration, and keeps itself until these are gone.
func (w *world) claim(name string) {
	w.t.Helper()
	m := w.machine(name)
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	m.Spec.Bootstrap.DataSecretName = ptr.To(name)
	if err := w.client.Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID,
		Controller: ptr.To(true)}
	for _, o := range []client.Object{&infrav1.LocalMachine{}, &bootstrapv1.KubeadmConfig{}} {
		if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(m), o); err != nil {
			w.t.Fatal(err)
		}
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		if err := w.client.Update(context.Background(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// join lets a machine come up in the managed cluster: Node, static pods, and a voter.
func (w *world) join(name string) {
	w.t.Helper()
	w.claim(name)
	w.appear(name)
}

// appear lets a machine's Node, static pods and voter be seen.
func (w *world) appear(name string) {
	defer w.locked()()
	node, pods := testNode(name), testPods(name)
	w.view.Reachable, w.view.Why = true, ""
	w.view.FailingSince, w.view.SilentSince = time.Time{}, time.Time{}
	w.view.Nodes = append(w.view.Nodes, node)
	w.view.Pods = append(w.view.Pods, pods...)
	w.members = append(w.members, etcd.Member{ID: w.nextID, Name: name, Health: plan.Healthy, Leader: len(w.members) == 0})
	w.nextID++
}

// forgetEtcd lets what etcd said last be too old.
func (w *world) forgetEtcd() { w.r.Memories.Of(kcpKey).Surveys.At = time.Time{} }

func testNode(name string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(),
		Labels: map[string]string{machine.NodeLabel: ""}}}
	node.Spec.Taints = []corev1.Taint{{Key: machine.NodeLabel, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func testPods(node string) []corev1.Pod {
	var pods []corev1.Pod
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-" + node, CreationTimestamp: metav1.Now(),
			Labels:          map[string]string{"component": name, "tier": "control-plane"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: node}}}}
		pod.Spec.NodeName = node
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		pods = append(pods, pod)
	}
	return pods
}

// terminate does what the core controllers do to a Machine that is being deleted,
// until they wait for the hook.
func (w *world) terminate(name string) {
	w.t.Helper()
	m := w.machine(name)
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason})
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
}

// bury ends every Machine that is being deleted and holds no hook, with all that belongs to it.
func (w *world) bury() {
	w.t.Helper()
	for _, m := range w.machines() {
		if m.DeletionTimestamp.IsZero() || machine.HasHook(&m) {
			continue
		}
		for _, o := range []client.Object{&infrav1.LocalMachine{}, &bootstrapv1.KubeadmConfig{}} {
			o.SetNamespace(m.Namespace)
			o.SetName(m.Name)
			if err := client.IgnoreNotFound(w.client.Delete(context.Background(), o)); err != nil {
				w.t.Fatal(err)
			}
		}
		m.Finalizers = nil
		if err := w.client.Update(context.Background(), &m); err != nil {
			w.t.Fatal(err)
		}
		w.view.Nodes = slices.DeleteFunc(w.view.Nodes, func(n corev1.Node) bool { return n.Name == m.Name })
		w.view.Pods = slices.DeleteFunc(w.view.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == m.Name })
	}
}

// heard returns the events since the last call.
func (w *world) heard() []string {
	var all []string
	for {
		select {
		case e := <-w.recorded:
			all = append(all, e)
		default:
			return all
		}
	}
}

// grown returns a world with a control plane of that many machines at rest.
func grown(t *testing.T, replicas int) *world {
	t.Helper()
	return grownOf(t, testKCP(int32(replicas)))
}

// grownOf returns a world at rest, whose control plane is this one.
func grownOf(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) *world {
	t.Helper()
	w := newWorld(t, testCluster(), kcp)
	w.settle()
	w.init = true
	for n := range int(*kcp.Spec.Replicas) {
		w.join(fmt.Sprintf("demo-cp-%d", n+1))
		w.forgetEtcd()
		w.settle()
	}
	if got := w.kcp().Status.Plan; got.Step != string(plan.Nothing) {
		t.Fatalf("not at rest: %+v", got)
	}
	w.heard()
	return w
}

// DropPods implements observe.KubeadmFiles. Machines that join before it would ask members of another etcd.
func (w *world) DropPods(_ context.Context, _ *clusterv1.Cluster, pods []*corev1.Pod) error {
	n := len(w.machines())
	defer w.locked()()
	gone := map[string]bool{}
	for _, p := range pods {
		gone[p.Name] = true
		w.droppedPods = append(w.droppedPods, fmt.Sprintf("%s beside %d", p.Name, n))
	}
	w.view.Pods = slices.DeleteFunc(slices.Clone(w.view.Pods), func(p corev1.Pod) bool { return gone[p.Name] })
	return nil
}

// DropNodes implements observe.KubeadmFiles.
func (w *world) DropNodes(_ context.Context, _ *clusterv1.Cluster, gone observe.GoneMachines) error {
	defer w.locked()()
	w.droppedNodes = append(w.droppedNodes, gone.Given...)
	return nil
}
