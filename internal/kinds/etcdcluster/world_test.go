package etcdcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

var key = client.ObjectKey{Namespace: "default", Name: "demo-etcd"}

// world is a management cluster in memory, in which the core controllers, the infrastructure and etcdadm do their part at once, and
// an etcd cluster whose members are as the test lets them be.
type world struct {
	t       *testing.T
	client  client.Client
	c       *group.Controller
	members []etcd.Member
	// lagging are learners that do not catch up, by name. failing is why changes of members fail; nil: they do not.
	lagging map[string]bool
	failing error
	// unsure: who answers does not agree with the others, and what is said is not known to be so.
	unsure bool
	// addresses count those that were given. most is how many machines there were at once.
	addresses, most int
	// told are the values of status.endpoints, done what was done to members, and gone the machines that are, each in their order.
	told, done, gone []string
	downgrade        string // to which etcd is asked to lower its data
}

func (w *world) Want(client.ObjectKey, bool) {
	w.t.Error("a connection to the managed cluster was wanted")
}
func (w *world) Rest(client.ObjectKey)   {}
func (w *world) Forget(client.ObjectKey) {}
func (w *world) Own(client.ObjectKey, workload.Mine) {
	w.t.Error("machines without Nodes have no Nodes of their own")
}
func (w *world) Config(client.ObjectKey) *rest.Config { return nil }
func (w *world) View(client.ObjectKey) workload.View  { return workload.View{} }
func (w *world) Events() <-chan event.GenericEvent    { return nil }
func (w *world) Dial(client.ObjectKey, string, string, int) func(context.Context) (net.Conn, error) {
	w.t.Error("members were to be reached through the managed cluster, which needs them first")
	return func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
}
func (w *world) Data(context.Context, *clusterv1.Cluster) (observe.DataKeeper, error) {
	return w, nil
}
func (w *world) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return w, nil }

// Glance implements observe.Quorum.
func (w *world) Glance(context.Context, etcd.Target, etcd.Survey) bool {
	w.t.Error("members were to be glanced at between turns, who are asked in each")
	return true
}

// Survey implements observe.Quorum: nobody knows the health of who was not asked.
func (w *world) Survey(_ context.Context, targets []etcd.Target) etcd.Survey {
	s := etcd.Survey{Agreed: true, Why: "no member answered"}
	for _, m := range w.members {
		if !slices.ContainsFunc(targets, func(t etcd.Target) bool { return t.Name == m.Name }) {
			m.Health = plan.Unknown
		}
		s.Known = s.Known || m.Health == plan.Healthy
		s.Members = append(s.Members, m)
	}
	if !s.Known {
		s.Members = nil
	}
	s.Known, s.Downgrade = s.Known && !w.unsure, w.downgrade
	return s
}

func (w *world) MoveLeader(_ context.Context, _ []etcd.Target, to uint64) error {
	for i := range w.members {
		w.members[i].Leader = w.members[i].ID == to
		if w.members[i].Leader {
			w.done = append(w.done, "lead "+w.members[i].Name)
		}
	}
	return w.failing
}

func (w *world) Promote(_ context.Context, _ []etcd.Target, id uint64) error {
	for i := range w.members {
		if m := &w.members[i]; m.ID == id {
			if !m.InSync {
				w.t.Errorf("learner %s has not caught up, and was to vote", m.Name)
			}
			m.Learner, m.InSync = false, false
			w.done = append(w.done, "promote "+m.Name)
		}
	}
	return w.failing
}

func (w *world) Compact(context.Context, []etcd.Target, int64) error     { return nil }
func (w *world) Defragment(context.Context, []etcd.Target, uint64) error { return nil }
func (w *world) Compare(context.Context, []etcd.Target, etcd.Survey) etcd.Comparison {
	return etcd.Comparison{Revision: 1}
}
func (w *world) Disarm(context.Context, []etcd.Target) error { return nil }

// AddPlaceholder implements observe.Quorum: etcd takes one learner at a time.
func (w *world) AddPlaceholder(context.Context, []etcd.Target) error {
	if w.failing != nil || slices.ContainsFunc(w.members, func(m etcd.Member) bool { return m.Learner }) {
		return w.failing
	}
	w.members = append(w.members, etcd.Member{ID: 999, Learner: true, PeerURLs: []string{"https://quorate-placeholder@127.0.0.1:9"}})
	w.done = append(w.done, "placeholder")
	return nil
}

// EnableDowngrade implements observe.Quorum.
func (w *world) EnableDowngrade(_ context.Context, _ []etcd.Target, to string) error {
	w.downgrade = to + ".0"
	w.done = append(w.done, "enable "+to)
	return w.failing
}

// CancelDowngrade implements observe.Quorum.
func (w *world) CancelDowngrade(context.Context, []etcd.Target) error {
	w.downgrade = ""
	w.done = append(w.done, "cancel")
	return w.failing
}

// monitor does what etcd does about its version: all data are of the lowest of the members', once all are known, or of that to which a
// downgrade is enabled.
func (w *world) monitor() {
	oldest := "9"
	for _, m := range w.members {
		if m.Name == "" || m.Health != plan.Healthy {
			return
		}
		oldest = min(oldest, m.Version)
	}
	if w.downgrade != "" {
		oldest = w.downgrade
	}
	for i := range w.members {
		if m := &w.members[i]; m.Version >= "3.6" {
			m.Storage = oldest[:4] + "0"
		}
	}
}

// keeps is the minor version of the members' data; empty: there is none.
func (w *world) keeps() string {
	if len(w.members) == 0 {
		return ""
	}
	return cmp.Or(w.members[0].Storage, w.members[0].Version)[:3]
}

func (w *world) RemoveMember(_ context.Context, _ []etcd.Target, id uint64) error {
	w.members = slices.DeleteFunc(w.members, func(m etcd.Member) bool {
		if m.ID == id && m.Leader {
			w.t.Errorf("member %s was removed while it led", m.Name)
		}
		if m.ID == id {
			w.done = append(w.done, "remove "+m.Name)
		}
		return m.ID == id
	})
	return w.failing
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, bootstrapv1alpha1.AddToScheme,
		v1alpha1.AddToScheme, v1beta2.AddToScheme, infrav1.AddToScheme, backupv1alpha1.AddToScheme,
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
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "cluster-uid",
		Finalizers: []string{clusterv1.ClusterFinalizer}}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
		Name: "demo"}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "KubeadmControlPlane",
		Name: "demo-cp"}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	return c
}

// testEtcd is an etcd cluster that belongs to its Cluster by the label alone.
func testEtcd(replicas int32) *v1alpha1.EtcdCluster {
	e := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "etcd-uid", Generation: 1, CreationTimestamp: metav1.Now(),
		Finalizers: []string{Finalizer},
		Labels:     map[string]string{clusterv1.ClusterNameLabel: "demo"},
	}}
	e.Spec.Replicas = &replicas
	e.Spec.InfrastructureTemplate = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group,
		Kind: "LocalMachineTemplate", Name: "etcd"}
	return e
}

// testControlPlane is the control plane that keeps its data in the etcd cluster.
func testControlPlane() *v1beta2.KubeadmControlPlane {
	return &v1beta2.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp", UID: "cp-uid",
		Finalizers: []string{"held"}}}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	objects = append(objects, testCluster(), testControlPlane(),
		&infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}},
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "etcd"}},
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "larger"}},
		kindOf("localclusters.infrastructure.cluster.x-k8s.io", "v1alpha1"),
		kindOf("localmachinetemplates.infrastructure.cluster.x-k8s.io", "v1alpha1"), kindOf("localmachines.infrastructure.cluster.x-k8s.io",
			"v1alpha1"),
		kindOf("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "v1beta2"))
	w := &world{t: t, lagging: map[string]bool{}}
	w.client = fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EtcdCluster{}, &clusterv1.Machine{}, &clusterv1.Cluster{}, &infrav1.LocalCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: grouptest.StatusPatch, Create: func(ctx context.Context, c client.WithWatch,
			o client.Object, options ...client.CreateOption) error {
			o.SetUID(types.UID("uid-" + o.GetName()))
			o.SetCreationTimestamp(metav1.Now())
			return c.Create(ctx, o, options...)
		}}).Build()
	w.restart()
	return w
}

// restart forgets all that is kept in memory.
func (w *world) restart() {
	w.c = &group.Controller{Client: w.client, APIReader: w.client, Workload: w, Recorder: events.NewFakeRecorder(10000), Quorums: w,
		Kind: New()}
}

// turn takes one turn.
func (w *world) turn() error {
	w.t.Helper()
	w.c.Memories.Of(key).Surveys.Drop()
	for {
		_, err := w.c.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		running := w.c.Memories.Of(key).Surveys.Running()
		if err != nil || running == nil {
			return err
		}
		<-running // which brings about the next turn
	}
}

// around lets everybody else do their part, and takes one turn.
func (w *world) around() {
	w.t.Helper()
	w.core()
	w.etcdadm()
	if err := w.turn(); err != nil {
		w.t.Fatalf("turn failed: %v", err)
	}
	w.most = max(w.most, len(w.machines()))
	if e := w.etcd(); e != nil && e.Status.Endpoints != "" && !slices.Contains(w.told[max(0, len(w.told)-1):], e.Status.Endpoints) {
		w.told = append(w.told, e.Status.Endpoints)
	}
}

// settle goes on until nothing changes any more, and returns what is decided then.
func (w *world) settle() v1beta2.PlanStatus {
	w.t.Helper()
	for range 200 {
		before := w.looks()
		w.around()
		if w.etcd() == nil {
			return v1beta2.PlanStatus{}
		}
		if w.looks() == before {
			return w.etcd().Status.Plan
		}
	}
	w.t.Fatalf("did not settle: %+v", w.etcd().Status.Plan)
	return v1beta2.PlanStatus{}
}

// rest settles, and there is nothing to do then.
func (w *world) rest() {
	w.t.Helper()
	if p := w.settle(); p.Step != string(plan.Nothing) {
		w.t.Fatalf("at rest the step is %+v; members are %+v", p, w.members)
	}
}

// looks is all that may change.
func (w *world) looks() string {
	text := fmt.Sprint(w.members)
	if e := w.etcd(); e != nil {
		text += e.ResourceVersion
	}
	for _, m := range w.machines() {
		text += m.Name + m.ResourceVersion
	}
	recoveries := &backupv1alpha1.EtcdRecoveryList{}
	if err := w.client.List(w.t.Context(), recoveries); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range recoveries.Items {
		text += r.Name + r.ResourceVersion
	}
	return text
}

// core does what the core controllers and the infrastructure do: a Machine gets an address and bootstrap data, and one that is being
// deleted goes once nothing holds it.
func (w *world) core() {
	w.t.Helper()
	for _, m := range w.machines() {
		switch {
		case m.Labels[v1alpha1.MachineLabel] == "" || m.Spec.InfrastructureRef.Name == "": // somebody else's
		case m.DeletionTimestamp.IsZero() && len(m.Status.Addresses) == 0:
			w.provision(&m)
		case !m.DeletionTimestamp.IsZero() && !machine.HasHook(&m):
			m.Finalizers = nil
			w.update(&m)
			w.gone = append(w.gone, m.Name)
		case !m.DeletionTimestamp.IsZero() && !conditions.Has(&m, clusterv1.MachineDeletingCondition):
			conditions.Set(&m, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
				Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason})
			w.updateStatus(&m)
		}
	}
}

// provision gives a Machine its address and its bootstrap data.
func (w *world) provision(m *clusterv1.Machine) {
	w.t.Helper()
	m.Finalizers, m.Spec.Bootstrap.DataSecretName = []string{clusterv1.MachineFinalizer}, ptr.To(m.Name)
	w.update(m)
	w.addresses++
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.0.0.%d", w.addresses)}}
	w.updateStatus(m)
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID,
		Controller: ptr.To(true)}
	for _, o := range []client.Object{&infrav1.LocalMachine{}, &bootstrapv1alpha1.EtcdadmConfig{}} {
		w.get(m.Name, o)
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		w.update(o)
	}
}

// etcdadm makes members: the first begins the cluster, the others are learners, of which etcd has one at a time.
func (w *world) etcdadm() {
	for i := range w.members {
		w.members[i].InSync = w.members[i].Learner && !w.lagging[w.members[i].Name]
	}
	w.monitor()
	for _, m := range w.machines() {
		if w.start(&m) {
			continue
		}
		known := slices.ContainsFunc(w.members, func(e etcd.Member) bool { return e.Name == m.Name })
		learns := slices.ContainsFunc(w.members, func(e etcd.Member) bool { return e.Learner })
		ip := machine.InternalIP(&m)
		if known || learns || ip == "" || !m.DeletionTimestamp.IsZero() || w.lagging["all"] {
			continue
		}
		runs := w.versionOf(&m)
		if runs < w.keeps() {
			continue // it could not read the data
		}
		added := etcd.Member{
			ID: uint64(w.addresses*10 + len(w.members)), Name: m.Name, PeerURLs: []string{"https://" + ip + ":2380"}, Health: plan.Healthy,
			Learner: len(w.members) > 0, Leader: len(w.members) == 0, Version: runs,
		}
		if w.downgrade != "" {
			added.Name, added.Health, added.Version = "", plan.Unknown, ""
		}
		w.members = append(w.members, added)
	}
	w.monitor()
}

// versionOf is the version of etcd that a machine was made with.
func (w *world) versionOf(m *clusterv1.Machine) string {
	w.t.Helper()
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	w.get(m.Name, config)
	return strings.TrimPrefix(config.Spec.Version, "v")
}

// start starts the member on a machine that was added and waits, unless a downgrade is enabled. It reports whether there is one.
func (w *world) start(m *clusterv1.Machine) bool {
	ip := machine.InternalIP(m)
	for i := range w.members {
		e := &w.members[i]
		if e.Name != "" || !slices.Contains(e.PeerURLs, "https://"+ip+":2380") {
			continue
		}
		if w.downgrade == "" {
			e.Name, e.Health, e.Version = m.Name, plan.Healthy, w.versionOf(m)
		}
		return true
	}
	return false
}

// silence lets a member answer no more; another leads then.
func (w *world) silence(name string) {
	for i := range w.members {
		if w.members[i].Name == name {
			w.members[i].Health, w.members[i].Leader = plan.Unhealthy, false
		}
	}
	for i := range w.members {
		if w.members[i].Health == plan.Healthy {
			w.members[i].Leader = true
			return
		}
	}
}

// voters are the names of the members that vote, sorted.
func (w *world) voters() string {
	var names []string
	for _, m := range w.members {
		if !m.Learner {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// etcd reads the etcd cluster; nil when it is gone.
func (w *world) etcd() *v1alpha1.EtcdCluster {
	w.t.Helper()
	e := &v1alpha1.EtcdCluster{}
	err := w.client.Get(w.t.Context(), key, e)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// change changes the etcd cluster as a user does.
func (w *world) change(how func(*v1alpha1.EtcdCluster)) {
	w.t.Helper()
	e := w.etcd()
	how(e)
	e.Generation++
	w.update(e)
}

// machines reads all Machines, by name.
func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) names() string {
	var names []string
	for _, m := range w.machines() {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) get(name string, o client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) updateStatus(o client.Object) {
	w.t.Helper()
	if err := w.client.Status().Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// isGone reports whether an object is being deleted, or gone.
func (w *world) isGone(name string, o client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err != nil || !o.GetDeletionTimestamp().IsZero()
}

var errRefused = errors.New("refused")
