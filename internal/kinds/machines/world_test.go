package machines

import (
	"context"
	"net"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
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

var key = client.ObjectKey{Namespace: "default", Name: "cp"}

// world is a management cluster in memory, and a managed cluster as a test lets it be.
type world struct {
	t       *testing.T
	client  client.Client
	c       *group.Controller
	view    workload.View
	members []etcd.Member
	config  *rest.Config
	said    *metav1.Condition
	failed  error
	// files are the versions that kubeadm's files in the managed cluster are of, by their chores.
	files map[string]string
}

// Initialised implements observe.KubeadmFiles.
func (w *world) Initialised(context.Context, *clusterv1.Cluster, bool) (string, error) {
	return "", nil
}

// NewToken implements observe.KubeadmFiles.
func (w *world) NewToken(context.Context, *clusterv1.Cluster) (string, error) {
	return "abcdef.0123456789abcdef", nil
}

// DropTokens implements observe.KubeadmFiles.
func (w *world) DropTokens(_ context.Context, _ *clusterv1.Cluster, _ map[string]bool) error {
	return nil
}

// Behind implements observe.KubeadmFiles.
func (w *world) Behind(_ context.Context, _ *clusterv1.Cluster, want kubeadm.Wanted) (kubeadm.Behind, error) {
	differs := func(chore string) string {
		if has := w.files[chore]; has != want.Version {
			return has + ", " + want.Version + " wanted"
		}
		return ""
	}
	return kubeadm.Behind{Permissions: differs(observe.ChorePermissions), Config: differs(observe.ChoreKubeadmConfig),
		Addons: differs(observe.ChoreAddons)}, nil
}

// Write implements observe.KubeadmFiles.
func (w *world) Write(_ context.Context, _ *clusterv1.Cluster, want kubeadm.Wanted, chore string) error {
	w.files[chore] = want.Version
	return nil
}

func (w *world) Want(client.ObjectKey, bool)          {}
func (w *world) Rest(client.ObjectKey)                {}
func (w *world) Forget(client.ObjectKey)              {}
func (w *world) Own(client.ObjectKey, workload.Mine)  {}
func (w *world) Config(client.ObjectKey) *rest.Config { return w.config }
func (w *world) View(client.ObjectKey) workload.View  { return w.view }
func (w *world) Events() <-chan event.GenericEvent    { return nil }
func (w *world) Dial(client.ObjectKey, string, string, int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
}
func (w *world) Data(context.Context, *clusterv1.Cluster) (observe.DataKeeper, error) {
	return w, nil
}
func (w *world) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return w, nil }
func (w *world) Survey(context.Context, []etcd.Target) etcd.Survey {
	return etcd.Survey{Known: true, Agreed: true, Members: slices.Clone(w.members)}
}
func (w *world) Glance(context.Context, etcd.Target, etcd.Survey) bool        { return true }
func (w *world) MoveLeader(context.Context, []etcd.Target, uint64) error      { return nil }
func (w *world) Promote(context.Context, []etcd.Target, uint64) error         { return nil }
func (w *world) EnableDowngrade(context.Context, []etcd.Target, string) error { return nil }
func (w *world) CancelDowngrade(context.Context, []etcd.Target) error         { return nil }
func (w *world) Compact(context.Context, []etcd.Target, int64) error          { return nil }
func (w *world) Defragment(context.Context, []etcd.Target, uint64) error      { return nil }
func (w *world) Compare(context.Context, []etcd.Target, etcd.Survey) etcd.Comparison {
	return etcd.Comparison{Revision: 1}
}
func (w *world) Disarm(context.Context, []etcd.Target) error         { return nil }
func (w *world) AddPlaceholder(context.Context, []etcd.Target) error { return nil }
func (w *world) RemoveMember(_ context.Context, _ []etcd.Target, id uint64) error {
	w.members = slices.DeleteFunc(w.members, func(m etcd.Member) bool { return m.ID == id })
	return nil
}

// Condition implements Operators.
func (w *world) Condition(context.Context, *rest.Config, v1alpha1.EtcdOperatorReference) (*metav1.Condition, error) {
	if len(w.c.Slots) != 0 {
		w.t.Error("the turn that waits for the operator's word has its slot still")
	}
	return w.said, w.failed
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, v1alpha1.AddToScheme,
		v1beta2.AddToScheme, infrav1.AddToScheme, upgradev1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// kindOf is what the contract of Cluster API wants to know of a kind: which version to use.
func kindOf(name, version string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"cluster.x-k8s.io/v1beta2": version}}}
}

func testCluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "cluster-uid"}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "ControlPlane",
		Name: key.Name}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	return c
}

// testControlPlane is one of three machines that the kubeadm bootstrap provider sets up.
func testControlPlane() *v1alpha1.ControlPlane {
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "cp-uid", Generation: 1, CreationTimestamp: metav1.Now(), Finalizers: []string{Finalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo",
			UID: "cluster-uid"}},
	}}
	cp.Spec.Replicas = ptr.To(int32(3))
	cp.Spec.Version = "v1.36.3"
	template := &cp.Spec.MachineTemplate.Spec
	template.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachineTemplate",
		Name: "demo"}
	template.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group,
		Kind: "KubeadmConfigTemplate", Name: "demo"}
	return cp
}

func newWorld(t *testing.T, cp *v1alpha1.ControlPlane, objects ...client.Object) *world {
	t.Helper()
	config := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	config.Spec.Template.Spec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256
	objects = append(objects, cp, testCluster(), config,
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}},
		kindOf("localmachinetemplates.infrastructure.cluster.x-k8s.io", "v1alpha1"), kindOf("localmachines.infrastructure.cluster.x-k8s.io",
			"v1alpha1"),
		kindOf("kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io", "v1beta2"), kindOf("kubeadmconfigs.bootstrap.cluster.x-k8s.io", "v1beta2"))
	w := &world{t: t, files: map[string]string{observe.ChorePermissions: "v1.36.3", observe.ChoreKubeadmConfig: "v1.36.3",
		observe.ChoreAddons: "v1.36.3"}}
	w.client = fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ControlPlane{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: grouptest.StatusPatch, Create: func(ctx context.Context, c client.WithWatch,
			o client.Object, options ...client.CreateOption) error {
			o.SetUID(types.UID("uid-" + o.GetName()))
			o.SetCreationTimestamp(metav1.Now())
			return c.Create(ctx, o, options...)
		}}).Build()
	kind := New()
	kind.Etcd = w
	w.c = &group.Controller{Client: w.client, APIReader: w.client, Workload: w, Recorder: events.NewFakeRecorder(1000), Quorums: w, Kubeadm: w,
		Kind: kind}
	return w
}

// turn takes one turn, which must not fail.
func (w *world) turn() ctrl.Result {
	w.t.Helper()
	for {
		result, err := w.c.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			w.t.Fatalf("turn failed: %v", err)
		}
		running := w.c.Memories.Of(key).Surveys.Running()
		if running == nil {
			return result
		}
		<-running // which brings about the next turn
	}
}

// settle takes turns until one neither acts nor writes, and returns what is decided then.
func (w *world) settle() v1beta2.PlanStatus {
	w.t.Helper()
	for range 50 {
		before := w.controlPlane().ResourceVersion
		if result, after := w.turn(), w.controlPlane(); result.RequeueAfter != observe.SoonAfterAct && after.ResourceVersion == before {
			return after.Status.Plan
		}
	}
	w.t.Fatalf("did not settle: %+v", w.controlPlane().Status.Plan)
	return v1beta2.PlanStatus{}
}

func (w *world) controlPlane() *v1alpha1.ControlPlane {
	w.t.Helper()
	cp := &v1alpha1.ControlPlane{}
	w.get(key.Name, cp)
	return cp
}

func (w *world) get(name string, o client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}

// change changes the control plane as a user does.
func (w *world) change(how func(*v1alpha1.ControlPlane)) {
	w.t.Helper()
	cp := w.controlPlane()
	how(cp)
	cp.Generation++
	if err := w.client.Update(w.t.Context(), cp); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) machines() []string {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	return names
}

// join lets a machine's Node and its voter appear.
func (w *world) join(name string) {
	w.view.Reachable = true
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(),
		Labels: map[string]string{machine.NodeLabel: ""}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.view.Nodes = append(w.view.Nodes, node)
	w.members = append(w.members, etcd.Member{ID: uint64(len(w.members) + 1), Name: name, Health: plan.Healthy, Leader: len(w.members) == 0})
	w.c.Memories.Of(key).Surveys.Drop()
}

// ready reports whether a machine's Node is ready.
func (w *world) ready(name string, is corev1.ConditionStatus) {
	for i := range w.view.Nodes {
		if w.view.Nodes[i].Name == name {
			w.view.Nodes[i].Status.Conditions[0].Status = is
		}
	}
}

// DropPods implements observe.KubeadmFiles.
func (w *world) DropPods(context.Context, *clusterv1.Cluster, []*corev1.Pod) error { return nil }

// DropNodes implements observe.KubeadmFiles.
func (w *world) DropNodes(context.Context, *clusterv1.Cluster, observe.GoneMachines) error {
	return nil
}
