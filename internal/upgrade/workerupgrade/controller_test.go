package workerupgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/updates"
)

const older, newer = "v1.35.4", "v1.36.3"

// world is a management cluster with one MachineDeployment of two machines, and its controller.
type world struct {
	t      *testing.T
	client client.Client
	c      *Controller
}

func newWorld(t *testing.T, annotations map[string]string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, upgradev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	md := &clusterv1.MachineDeployment{ObjectMeta: named("demo-workers", nil, "")}
	md.Annotations = annotations
	md.Spec.ClusterName, md.Spec.Replicas = "demo", ptr.To[int32](2)
	md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	md.Spec.Template.Spec = machineSpec(newer)
	ms := &clusterv1.MachineSet{ObjectMeta: named("demo-workers-abc", md, "MachineDeployment")}
	ms.Spec.Template.Spec = machineSpec(older)
	objects := []client.Object{&clusterv1.Cluster{ObjectMeta: named("demo", nil, "")}, md, ms}
	for _, name := range []string{"w1", "w2"} {
		m := &clusterv1.Machine{ObjectMeta: named(name, ms, "MachineSet"), Spec: machineSpec(older)}
		m.Labels[clusterv1.MachineDeploymentNameLabel] = md.Name
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
		objects = append(objects, m)
	}
	k8s := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&upgradev1.MachineDeploymentUpgrade{}, &upgradev1.NodeUpgrade{}).Build()
	return &world{t: t, client: k8s, c: &Controller{Client: k8s, Recorder: events.NewFakeRecorder(100)}}
}

func named(name string, owner client.Object, kind string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind(kind))}
	}
	return m
}

func machineSpec(version string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "demo", Version: version,
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io",
			Kind: "KubeadmConfigTemplate", Name: "demo-workers"}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "LocalMachineTemplate",
			Name: "demo-workers"},
	}
}

// turn lets the controller look once.
func (w *world) turn() error {
	_, err := w.c.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "demo-workers"}})
	return err
}

func (w *world) turns(n int) {
	w.t.Helper()
	for range n {
		if err := w.turn(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// upgrades are the NodeUpgrades that there are.
func (w *world) upgrades() []upgradev1.NodeUpgrade {
	w.t.Helper()
	var all upgradev1.NodeUpgradeList
	if err := w.client.List(context.Background(), &all); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// ends has a node's upgrade end.
func (w *world) ends(u upgradev1.NodeUpgrade, completed bool) {
	w.t.Helper()
	u.Status.Completed = ptr.To(completed)
	reason := upgradev1.Done
	if !completed {
		reason = upgradev1.RolledBack
	}
	conditions.Set(&u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: reason,
		Message: "swap: the kubelet did not come up"})
	if err := w.client.Status().Update(context.Background(), &u); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(o client.Object, name string) {
	w.t.Helper()
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}

// told is the only MachineDeploymentUpgrade.
func (w *world) told() upgradev1.MachineDeploymentUpgrade {
	w.t.Helper()
	var all upgradev1.MachineDeploymentUpgradeList
	if err := w.client.List(context.Background(), &all); err != nil || len(all.Items) != 1 {
		w.t.Fatalf("%d upgrades, %v", len(all.Items), err)
	}
	return all.Items[0]
}

// TestUpgrade: two workers are upgraded one after the other; then their MachineSet has the wanted version, and is the current one to
// Cluster API.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.turns(3)
	all := w.upgrades()
	if len(all) != 1 || all[0].Spec.Machine.Name != "w1" || all[0].Spec.NodeType != upgradev1.Worker ||
		all[0].Labels[clusterv1.ClusterNameLabel] != "demo" {
		t.Fatalf("begun are %+v", all)
	}
	if u := w.told(); *u.Status.RequireUpgrade != 2 || *u.Status.Upgraded != 0 || *u.Status.Ready || !metav1.IsControlledBy(&all[0], &u) ||
		len(u.Spec.MachinesRequireUpgrade) != 2 {
		t.Errorf("told is %+v", u)
	}
	w.ends(all[0], true)
	w.turns(4)
	m := &clusterv1.Machine{}
	if w.get(m, "w1"); m.Spec.Version != newer {
		t.Errorf("w1 says %s", m.Spec.Version)
	}
	all = w.upgrades()
	if len(all) != 2 || all[0].Annotations[upgradev1.RecordedAnnotation] == "" || all[1].Spec.Machine.Name != "w2" {
		t.Fatalf("begun are %+v", all)
	}
	w.ends(all[1], true)
	w.turns(4)
	ms := &clusterv1.MachineSet{}
	if w.get(ms, "demo-workers-abc"); ms.Spec.Template.Spec.Version != newer {
		t.Errorf("the MachineSet has %s", ms.Spec.Template.Spec.Version)
	}
	if u := w.told(); *u.Status.RequireUpgrade != 0 || *u.Status.Upgraded != 2 || !*u.Status.Ready ||
		!conditions.IsTrue(&u, upgradev1.Completed) {
		t.Errorf("told is %+v", u.Status)
	}
}

// TestRecordedAndLost: Cluster API's MachineSet controller may write a Machine's version as its cache shows it, after it was recorded. What
// the node runs is recorded again, and nothing is upgraded again.
func TestRecordedAndLost(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.turns(3)
	w.ends(w.upgrades()[0], true)
	w.turns(4)
	for _, kubelet := range []string{newer, newer + "+k3s1", newer} {
		w.forgets("w1", kubelet)
		w.turns(4)
		m := &clusterv1.Machine{}
		if w.get(m, "w1"); m.Spec.Version != newer {
			t.Errorf("the node runs %s, and the Machine says %s", kubelet, m.Spec.Version)
		}
	}
	w.ends(w.upgrades()[1], true)
	w.turns(6)
	if u := w.told(); len(w.upgrades()) != 2 || *u.Status.Upgraded != 2 || !*u.Status.Ready {
		t.Errorf("%d upgrades; told is %+v", len(w.upgrades()), u.Status)
	}
}

// forgets has a Machine say the older version again, and what its node runs.
func (w *world) forgets(name, kubelet string) {
	w.t.Helper()
	m := &clusterv1.Machine{}
	w.get(m, name)
	m.Spec.Version, m.Status.NodeInfo = older, &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	if err := w.client.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// TestUpgradedAnew: a worker whose upgrade was recorded and that is older again, as where its disk was put back, is upgraded again.
func TestUpgradedAnew(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.turns(3)
	for i := range 2 {
		w.ends(w.upgrades()[i], true)
		w.turns(4)
	}
	before := w.upgrades()
	w.forgets("w1", older)
	w.turns(4)
	after := w.upgrades()
	if len(after) != 2 || after[0].Name != before[0].Name || updates.IsRecorded(&after[0]) || ptr.Deref(after[0].Status.Completed, false) ||
		!updates.IsRecorded(&after[1]) {
		t.Fatalf("there are %+v", after)
	}
	w.ends(after[0], true)
	w.turns(6)
	m := &clusterv1.Machine{}
	if w.get(m, "w1"); m.Spec.Version != newer || !*w.told().Status.Ready {
		t.Errorf("the Machine says %s; told is %+v", m.Spec.Version, w.told().Status)
	}
}

// TestBegunOnce: an upgrade of the wanted name that is there is the one that was to be made, unless it goes: then another is made when it
// is gone.
func TestBegunOnce(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.turns(3)
	u := w.upgrades()[0]
	s := &scope{deployment: &clusterv1.MachineDeployment{}, cluster: &clusterv1.Cluster{}}
	w.get(s.deployment, "demo-workers")
	current := w.told()
	s.current = &current
	if err := w.c.update(t.Context(), s, "w1"); err != nil {
		t.Errorf("repeated: %v", err)
	}
	foreign := u.DeepCopy()
	foreign.Spec.Machine.Name = "of-another"
	if err := w.client.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := w.c.update(t.Context(), s, "w1"); err == nil || !strings.Contains(err.Error(), `spec.machine is "of-another": must be "w1"`) {
		t.Errorf("of another Machine: %v", err)
	}
	u.ResourceVersion = foreign.ResourceVersion
	u.Finalizers = []string{"theirs"}
	if err := w.client.Update(t.Context(), &u); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), &u); err != nil {
		t.Fatal(err)
	}
	if err := w.c.update(t.Context(), s, "w1"); !apierrors.IsConflict(err) {
		t.Errorf("while it goes: %v", err)
	}
}

// TestFailed: a node that was put back stops the others, and is told; another wanted version forgets it.
func TestFailed(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Only"})
	w.turns(2)
	w.ends(w.upgrades()[0], false)
	w.turns(3)
	u := w.told()
	if n := len(w.upgrades()); n != 1 || len(u.Status.Failures) != 1 || u.Status.Failures[0].Machine != "w1" ||
		!strings.Contains(u.Status.Failures[0].Message, "kubelet did not come up") {
		t.Errorf("%d begun, failures %+v", n, u.Status.Failures)
	}
	if c := conditions.Get(&u, upgradev1.Progressing); c.Status != metav1.ConditionFalse || c.Reason != "UpdateFailed" {
		t.Errorf("told is %+v", c)
	}
	md := &clusterv1.MachineDeployment{}
	w.get(md, "demo-workers")
	md.Spec.Template.Spec.Version = older
	if err := w.client.Update(context.Background(), md); err != nil {
		t.Fatal(err)
	}
	w.turns(3)
	if n := len(w.upgrades()); n != 0 {
		t.Errorf("%d upgrades are left", n)
	}
}

// TestDrain: nodes are drained as the annotations say; a node whose upgrade failed before it was changed is drained as they say now.
func TestDrain(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Only", upgradev1.DrainPolicyAnnotation: "Required",
		upgradev1.DrainTimeoutAnnotation: "60"})
	w.turns(2)
	u := w.upgrades()[0]
	if u.Spec.Drain.Policy != upgradev1.DrainRequired || ptr.Deref(u.Spec.Drain.TimeoutSeconds, 0) != 60 {
		t.Fatalf("%+v", u.Spec.Drain)
	}
	w.ends(u, false)
	w.turns(3)
	if all := w.upgrades(); len(all) != 1 || all[0].Spec.Drain.Policy != upgradev1.DrainRequired {
		t.Fatalf("%+v", all)
	}
	w.annotate(upgradev1.DrainPolicyAnnotation, "Never")
	w.turns(3)
	if all := w.upgrades(); len(all) != 1 || all[0].Spec.Drain.Policy != upgradev1.DrainNever {
		t.Errorf("%+v", all)
	}
	for name, value := range map[string]string{upgradev1.DrainPolicyAnnotation: "Sometimes", upgradev1.DrainTimeoutAnnotation: "5m"} {
		w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Only", name: value})
		if err := w.turn(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("invalid annotation %s %q: must be ", name, value)) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(w.upgrades()); n != 0 {
			t.Errorf("%s: %d were begun", name, n)
		}
	}
}

// annotate changes an annotation of the MachineDeployment.
func (w *world) annotate(name, value string) {
	w.t.Helper()
	md := &clusterv1.MachineDeployment{}
	w.get(md, "demo-workers")
	md.Annotations[name] = value
	if err := w.client.Update(context.Background(), md); err != nil {
		w.t.Fatal(err)
	}
}

// TestExternal: others are told by an annotation, and no more when all is as wanted.
func TestExternal(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "External"})
	w.turns(2)
	md := &clusterv1.MachineDeployment{}
	if w.get(md, "demo-workers"); md.Annotations[upgradev1.NeededAnnotation] != newer || len(w.upgrades()) != 0 {
		t.Errorf("annotations %v, begun %v", md.Annotations, w.upgrades())
	}
	for _, name := range []string{"w1", "w2"} {
		m := &clusterv1.Machine{}
		w.get(m, name)
		m.Spec.Version = newer
		if err := w.client.Update(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	w.turns(3)
	w.get(md, "demo-workers")
	if _, on := md.Annotations[upgradev1.NeededAnnotation]; on {
		t.Error("others are still told")
	}
}

// TestReplaced: what cannot be changed in place goes, with the policy Preferred only.
func TestReplaced(t *testing.T) {
	for policy, gone := range map[string]bool{"Preferred": true, "Only": false} {
		w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: policy})
		md := &clusterv1.MachineDeployment{}
		w.get(md, "demo-workers")
		md.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "other"
		if err := w.client.Update(context.Background(), md); err != nil {
			t.Fatal(err)
		}
		w.turns(2)
		err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "w1"}, &clusterv1.Machine{})
		if apierrors.IsNotFound(err) != gone {
			t.Errorf("%s: w1: %v", policy, err)
		}
	}
}

// TestOtherRuntime: workers that run another runtime than containerd are not upgraded in place: the policy Preferred replaces them, and
// with Only they stay.
func TestOtherRuntime(t *testing.T) {
	for policy, gone := range map[string]bool{"Preferred": true, "Only": false} {
		w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: policy})
		for _, name := range []string{"w1", "w2"} {
			m := &clusterv1.Machine{}
			w.get(m, name)
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: older, ContainerRuntimeVersion: "cri-o://1.35.0"}
			if err := w.client.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		w.turns(2)
		if n := len(w.upgrades()); n != 0 {
			t.Errorf("%s: %d upgrades were begun", policy, n)
		}
		err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "w1"}, &clusterv1.Machine{})
		if apierrors.IsNotFound(err) != gone {
			t.Errorf("%s: w1: %v", policy, err)
		}
	}
}

// TestPolicy: a word that means nothing is an error, and without the annotation nothing is done.
func TestPolicy(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Maybe"})
	if err := w.turn(); err == nil || !strings.Contains(err.Error(), `"Maybe": must be Never, Preferred, Only or External`) {
		t.Errorf("the error is %v", err)
	}
	w = newWorld(t, nil)
	w.turns(2)
	if n := len(w.upgrades()); n != 0 {
		t.Errorf("%d were begun", n)
	}
}

// TestClusterAPIs: what was made for Cluster API's own controllers is theirs, however it ended.
func TestClusterAPIs(t *testing.T) {
	for _, policy := range []string{"", "Preferred"} {
		w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: policy})
		m := &clusterv1.Machine{}
		w.get(m, "w1")
		m.Spec.Version = newer // says so before its node is upgraded
		if err := w.client.Update(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		u := &upgradev1.NodeUpgrade{ObjectMeta: named("w1-1", m, "Machine"), Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: "w1"}, KubernetesVersion: newer, NodeType: upgradev1.Worker,
		}}
		for _, completed := range []bool{false, true} {
			if err := w.client.Create(context.Background(), u.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			made := upgradev1.NodeUpgrade{}
			w.get(&made, u.Name)
			w.ends(made, completed)
			w.turns(3)
			w.get(&made, u.Name)
			if _, recorded := made.Annotations[upgradev1.RecordedAnnotation]; recorded {
				t.Errorf("policy %q: it was recorded", policy)
			}
			if err := w.client.Delete(context.Background(), &made); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestClusterAPIsUpdate: a Machine that Cluster API updates says the wanted version before its node has it. It is behind until then, and
// nothing is begun for it.
func TestClusterAPIsUpdate(t *testing.T) {
	for _, strategy := range []clusterv1.MachineDeploymentRolloutStrategyType{clusterv1.RollingUpdateMachineDeploymentStrategyType,
		clusterv1.OnDeleteMachineDeploymentStrategyType} {
		w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Only"})
		md := &clusterv1.MachineDeployment{}
		w.get(md, "demo-workers")
		md.Spec.Rollout.Strategy.Type = strategy
		if err := w.client.Update(context.Background(), md); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"w1", "w2"} {
			m := &clusterv1.Machine{}
			w.get(m, name)
			m.Spec.Version, m.Status.NodeInfo = newer, &corev1.NodeSystemInfo{KubeletVersion: older}
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			if err := w.client.Update(context.Background(), m); err != nil {
				t.Fatal(err)
			}
		}
		w.turns(3)
		if u := w.told(); ptr.Deref(u.Status.Ready, true) || ptr.Deref(u.Status.RequireUpgrade, 0) != 2 {
			t.Errorf("%s: it says %+v", strategy, u.Status)
		}
		if n := len(w.upgrades()); n != 0 {
			t.Errorf("%s: %d were begun", strategy, n)
		}
	}
}

// TestMoved: in another management cluster, where all have other UIDs and no status, the upgrade is the same one, and what a person said of
// it counts.
func TestMoved(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.turns(3)
	md, u := &clusterv1.MachineDeployment{}, w.told()
	w.get(md, "demo-workers")
	ms := &clusterv1.MachineSet{}
	w.get(ms, "demo-workers-abc")
	for _, o := range []client.Object{md, ms, &u} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion("")
	}
	md.UID, u.Status = "moved", upgradev1.GroupUpgradeStatus{}
	ms.OwnerReferences[0].UID, u.OwnerReferences[0].UID = md.UID, md.UID
	metav1.SetMetaDataAnnotation(&u.ObjectMeta, clusterv1.PausedAnnotation, "")
	for _, o := range []client.Object{md, ms, &u} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, begun := range w.upgrades() {
		w.ends(begun, true)
	}
	w.turns(3)
	if told, n := w.told(), len(w.upgrades()); told.Name != u.Name || *told.Status.RequireUpgrade != 2 || n != 1 {
		t.Errorf("told is %+v, %d begun", told, n)
	}
}

// TestAnewOfThatName: what was made for a MachineDeployment of the same name that is gone is not taken for the own.
func TestAnewOfThatName(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	if err := w.turn(); err != nil {
		t.Fatal(err)
	}
	old := w.told()
	old.OwnerReferences[0].UID = "another"
	if err := w.client.Update(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	if err := w.turn(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("it goes on: %v", err)
	}
	if err := w.client.Delete(t.Context(), &old); err != nil { // as the garbage collector does
		t.Fatal(err)
	}
	w.turns(2)
	if told := w.told(); len(told.OwnerReferences) != 1 || told.OwnerReferences[0].UID != "demo-workers" {
		t.Errorf("%+v", told.OwnerReferences)
	}
}

// TestBehind: workers wait for a control plane that is to have the version first, or is rolling out.
func TestBehind(t *testing.T) {
	rolling := []any{map[string]any{"type": "RollingOut", "status": "True"}}
	for want, object := range map[string]map[string]any{
		"":                        {"spec": map[string]any{"version": newer}, "status": map[string]any{"version": newer}},
		"has v1.35.4 in spec.ver": {"spec": map[string]any{"version": older}, "status": map[string]any{"version": older}},
		"has v1.35.4 in status.v": {"spec": map[string]any{"version": newer}, "status": map[string]any{"version": older}},
		"does not say":            {"spec": map[string]any{"version": newer}},
		"is rolling out":          {"spec": map[string]any{"version": newer}, "status": map[string]any{"version": newer, "conditions": rolling}},
	} {
		object["kind"], object["metadata"] = "KubeadmControlPlane", map[string]any{"name": "demo-cp"}
		got := behind(&unstructured.Unstructured{Object: object}, newer)
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q, want %q", object, got, want)
		}
	}
}
