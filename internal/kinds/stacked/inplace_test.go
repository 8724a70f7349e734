package stacked

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
)

// upgrades reads the NodeUpgrades whose work is not recorded yet.
func (w *world) upgrades() []upgradev1.NodeUpgrade {
	w.t.Helper()
	list := &upgradev1.NodeUpgradeList{}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(u upgradev1.NodeUpgrade) bool { return u.Annotations[upgradev1.RecordedAnnotation] != "" })
}

// underway returns the only NodeUpgrade that there must be.
func (w *world) underway() *upgradev1.NodeUpgrade {
	w.t.Helper()
	list := w.upgrades()
	if len(list) != 1 {
		w.t.Fatalf("%d NodeUpgrades are under way: %+v", len(list), w.kcp().Status.Plan)
	}
	return &list[0]
}

func (w *world) groupUpgrades() []upgradev1.ControlPlaneUpgrade {
	w.t.Helper()
	list := &upgradev1.ControlPlaneUpgradeList{}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// endUpgrade has an upgrade end so, as its controller reports it.
func (w *world) endUpgrade(u *upgradev1.NodeUpgrade, reason string) {
	w.t.Helper()
	u.Status.Attempts = ptr.To(int32(1))
	if reason == upgradev1.Done {
		u.Status.Completed = ptr.To(true)
	}
	conditions.Set(u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: reason, Message: "its message"})
	if err := w.client.Status().Update(context.Background(), u); err != nil {
		w.t.Fatal(err)
	}
}

// inPlacePolicy chooses a policy, and a version that machines can be brought to.
func inPlacePolicy(policy controlplanev1.InPlacePolicy) func(*controlplanev1.KubeadmControlPlane) {
	return func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Policy = policy
		kcp.Spec.Version = "v1.37.0"
	}
}

// step lets the control plane settle with fresh answers of etcd.
func (w *world) step() controlplanev1.PlanStatus {
	w.t.Helper()
	w.forgetEtcd()
	return w.settle()
}

// TestUpgradeInPlace takes three machines to another version, one after the other, the leader's last, and replaces none.
func TestUpgradeInPlace(t *testing.T) {
	w := grown(t, 3)
	before := w.machineNames()
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	var order []string
	for n := range 3 {
		p := w.step()
		u := w.underway()
		if p.Reason != "UpdatingInPlace" {
			t.Fatalf("%+v", p)
		}
		order = append(order, u.Spec.Machine.Name)
		if u.Spec.KubernetesVersion != "v1.37.0" || u.Spec.NodeType != upgradev1.ControlPlane ||
			ptr.Deref(u.Spec.FirstNodeToBeUpgraded, false) != (n == 0) {
			t.Errorf("%+v", u.Spec)
		}
		if c := conditions.Get(w.machine(u.Spec.Machine.Name), clusterv1.MachineUpToDateCondition); c.Status != metav1.ConditionFalse ||
			c.Reason != clusterv1.MachineUpToDateUpdatingReason {
			t.Errorf("%+v", c)
		}
		groups := w.groupUpgrades()
		if len(groups) != 1 || len(groups[0].Spec.MachinesRequireUpgrade) != 3 || ptr.Deref(groups[0].Status.RequireUpgrade, -1) != int64(3-n) ||
			ptr.Deref(groups[0].Status.Upgraded, -1) != int64(n) ||
			!metav1.IsControlledBy(u, &groups[0]) || !metav1.IsControlledBy(&groups[0], w.kcp()) {
			t.Fatalf("%+v", groups)
		}
		if again := w.step(); again.Reason != "UpdatingInPlace" || len(w.upgrades()) != 1 {
			t.Fatalf("another begins beside it: %+v", again)
		}
		w.endUpgrade(u, upgradev1.Done)
	}
	if p := w.step(); p.Reason != "AsWanted" {
		t.Fatalf("%+v", p)
	}
	if !slices.Equal(w.machineNames(), before) || strings.Join(order, " ") != "demo-cp-2 demo-cp-3 demo-cp-1" {
		t.Errorf("order %v, machines %v", order, w.machineNames())
	}
	for _, m := range w.machines() {
		if m.Spec.Version != "v1.37.0" || !conditions.IsTrue(&m, clusterv1.MachineUpToDateCondition) {
			t.Errorf("%s: %s %+v", m.Name, m.Spec.Version, m.Status.Conditions)
		}
	}
	group := w.groupUpgrades()[0]
	if !ptr.Deref(group.Status.Ready, false) || !conditions.IsTrue(&group, upgradev1.Completed) || len(w.upgrades()) != 0 {
		t.Errorf("%+v", group.Status)
	}
}

// TestNextNodeWaitsForNoProbe: the next node begins when the upgrader has found that all components of the one before answer, and does not
// wait until the kubelet has asked as well. Where nobody has found that out, it does.
func TestNextNodeWaitsForNoProbe(t *testing.T) {
	for name, verified := range map[string]bool{"the upgrader has asked": true, "nobody has asked": false} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
			w.step()
			u := w.underway()
			w.restartComponents(u.Spec.Machine.Name)
			if verified {
				conditions.Set(u, metav1.Condition{Type: string(steps.Verify), Status: metav1.ConditionTrue, Reason: upgradev1.Done})
				conditions.Set(u, metav1.Condition{Type: upgradev1.Completed, Status: metav1.ConditionTrue, Reason: upgradev1.Done})
			}
			w.endUpgrade(u, upgradev1.Done)
			if p := w.step(); (p.Reason == "UpdatingInPlace") != verified || len(w.upgrades()) != map[bool]int{true: 1}[verified] {
				t.Errorf("%+v, %d under way", p, len(w.upgrades()))
			}
		})
	}
}

// restartComponents has a machine's static pods run since a moment ago, so that the kubelet has not asked their startup probes yet.
func (w *world) restartComponents(machine string) {
	defer w.locked()()
	for i := range w.view.Pods {
		if p := &w.view.Pods[i]; p.Spec.NodeName == machine {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Spec.Containers = []corev1.Container{{Name: "c"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Started: ptr.To(false), State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-3 * time.Second))},
			}}}
		}
	}
}

// TestAddonsAfterUpdate: what kubeadm has updated with the last machine is not written once more because it was looked at before.
func TestAddonsAfterUpdate(t *testing.T) {
	w := grown(t, 1)
	w.addons = "kube-proxy is v1.36.3, v1.37.0 wanted"
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	w.step()
	w.underway()
	w.addons = ""
	w.endUpgrade(w.underway(), upgradev1.Done)
	seen := w.step()
	if seen.Reason != "AsWanted" || w.wroteAddons {
		t.Errorf("%+v, written: %v", seen, w.wroteAddons)
	}
}

// TestRecord: afterwards the objects of a machine say what is wanted, whatever of it was changed in place.
func TestRecord(t *testing.T) {
	w := grown(t, 1)
	if err := w.client.Create(context.Background(),
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other-machines"}}); err != nil {
		t.Fatal(err)
	}
	m := w.machine("demo-cp-1")
	w.config = "its version"
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		inPlacePolicy(controlplanev1.InPlacePreferred)(kcp)
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.Local.ImageTag = "3.6.16-0"
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "other-machines"
	})
	w.step()
	if u := w.underway(); u.Spec.EtcdVersion != "3.6.16-0" || w.config != "" {
		t.Errorf("%+v; kubeadm's configuration: %q", u.Spec, w.config)
	}
	w.endUpgrade(w.underway(), upgradev1.Done)
	if p := w.step(); p.Reason != "AsWanted" {
		t.Fatalf("%+v", p)
	}
	config, infra := &bootstrapv1.KubeadmConfig{}, &infrav1.LocalMachine{}
	for _, o := range []client.Object{config, infra} {
		if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(m), o); err != nil {
			t.Fatal(err)
		}
	}
	got := config.Spec.ClusterConfiguration
	if len(got.APIServer.ExtraArgs) != 1 || got.Etcd.Local.ImageTag != "3.6.16-0" ||
		got.EncryptionAlgorithm != bootstrapv1.EncryptionAlgorithmECDSAP256 {
		t.Errorf("%+v", got)
	}
	if infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != "other-machines" ||
		infra.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] != "LocalMachineTemplate.infrastructure.cluster.x-k8s.io" {
		t.Errorf("%v", infra.Annotations)
	}
	if after := w.machine("demo-cp-1"); after.UID != m.UID || after.Spec.Version != "v1.37.0" {
		t.Errorf("%+v", after)
	}
}

// TestKubeletArgs: arguments of the kubelet are changed in place, on a machine of init and on one that joined, and the machines say so
// afterwards. One that no live node can be given takes another machine.
func TestKubeletArgs(t *testing.T) {
	w := grown(t, 3)
	before := w.machineNames()
	set := func(init, join string) {
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
			kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To(init)}}
			kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "max-pods",
				Value: ptr.To(join)}}
		})
	}
	for _, value := range []string{"2", "3"} {
		set(value, value)
		for range 3 {
			w.step()
			u := w.underway()
			name := "max-pods"
			if u.Spec.Machine.Name == "demo-cp-1" {
				name = "v"
			}
			if args := u.Spec.Kubelet.ExtraArgs; len(args) != 1 || args[0].Name != name || *args[0].Value != value ||
				len(u.Spec.Kubelet.RemovedArgs) != 0 {
				t.Fatalf("%s: %+v", u.Spec.Machine.Name, u.Spec.Kubelet)
			}
			w.endUpgrade(u, upgradev1.Done)
		}
		if p := w.step(); p.Reason != "AsWanted" || !slices.Equal(w.machineNames(), before) {
			t.Fatalf("%+v, %v", p, w.machineNames())
		}
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.KubeletExtraArgs = nil
		kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To("3")}}
	})
	w.step()
	if u := w.underway(); u.Spec.Machine.Name != "demo-cp-1" || len(u.Spec.Kubelet.ExtraArgs) != 0 ||
		!slices.Equal(u.Spec.Kubelet.RemovedArgs, []string{"v"}) {
		t.Fatalf("%s: %+v", u.Spec.Machine.Name, u.Spec.Kubelet)
	}
	w.endUpgrade(w.underway(), upgradev1.Done)
	if p := w.step(); p.Reason != "AsWanted" {
		t.Fatalf("%+v", p)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "node-labels",
			Value: ptr.To("a=b")}}
	})
	if p := w.step(); p.Reason != "CannotUpdateInPlace" || !strings.Contains(p.Message, "kubeletExtraArgs[node-labels]") ||
		!strings.Contains(p.Message, "when it registers") {
		t.Fatalf("%+v", p)
	}
}

// TestFiles: a file is changed in place, and the machines say so afterwards, but for a secret file in nothing else. One that is taken away
// takes another machine.
func TestFiles(t *testing.T) {
	w := grown(t, 1)
	before := w.machineNames()
	set := func(content string) {
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
			kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/kubernetes/audit.yaml", Content: content},
				{Path: "/etc/other", Content: "stays"}}
		})
	}
	for n, content := range []string{"hunter1", "hunter2"} {
		set(content)
		for range 3 {
			w.step()
		}
		u := w.underway()
		if len(u.Spec.Files) != 2-n || u.Spec.Files[0].Path != "/etc/kubernetes/audit.yaml" {
			t.Fatalf("%+v", u.Spec.Files)
		}
		for _, g := range w.groupUpgrades() {
			if strings.Contains(g.Spec.ControlPlaneSpecData, "hunter") {
				t.Errorf("%s", g.Spec.ControlPlaneSpecData)
			}
		}
		w.endUpgrade(u, upgradev1.Done)
		if p := w.step(); p.Reason != "AsWanted" || !slices.Equal(w.machineNames(), before) {
			t.Fatalf("%+v, %v", p, w.machineNames())
		}
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.KubeadmConfigSpec.Files = nil })
	if p := w.step(); p.Reason != "CannotUpdateInPlace" || !strings.Contains(p.Message, "files[/etc/kubernetes/audit.yaml]") ||
		!strings.Contains(p.Message, "what was there before") {
		t.Fatalf("%+v", p)
	}
}

// TestFilesInDoubt: an upgrade that failed after its node was changed leaves files of which nobody knows what they hold: the next one
// writes them, also where it wants what was there before.
func TestFilesInDoubt(t *testing.T) {
	w := grown(t, 1)
	set := func(content, version string) {
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.InPlace.Policy, kcp.Spec.Version = controlplanev1.InPlaceOnly, version
			kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: content}}
		})
	}
	set("1", "v1.36.3")
	w.step()
	w.endUpgrade(w.underway(), upgradev1.Done)
	w.step()
	set("2", "v1.37.0")
	for range 3 {
		w.step()
	}
	u := w.underway()
	conditions.Set(u, metav1.Condition{Type: string(steps.Swap), Status: metav1.ConditionTrue, Reason: upgradev1.Done})
	w.endUpgrade(u, upgradev1.Failed)
	if p := w.step(); p.Reason != "UpdateFailed" {
		t.Fatalf("%+v", p)
	}
	set("1", "v1.37.1")
	for range 3 {
		w.step()
	}
	if u := w.underway(); len(u.Spec.Files) != 1 || u.Spec.KubernetesVersion != "v1.37.1" {
		t.Errorf("%+v", u.Spec)
	}
}

// TestTemplateOnly: where only the template of the infrastructure is another one, nothing is done on a node.
func TestTemplateOnly(t *testing.T) {
	w := grown(t, 3)
	if err := w.client.Create(context.Background(),
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other-machines"}}); err != nil {
		t.Fatal(err)
	}
	before := w.machineNames()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "other-machines"
	})
	if p := w.step(); p.Reason != "AsWanted" || !slices.Equal(w.machineNames(), before) || len(w.groupUpgrades()) != 0 {
		t.Errorf("%+v, %v, %v", p, w.machineNames(), w.groupUpgrades())
	}
}

// TestCannotUpdateInPlace: with the policy Only nothing is replaced, and the field that would need it is named; with Preferred the machines
// are replaced.
func TestCannotUpdateInPlace(t *testing.T) {
	w := grown(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		inPlacePolicy(controlplanev1.InPlaceOnly)(kcp)
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.CertSANs = []string{"example.com"}
	})
	p := w.step()
	if p.Reason != "CannotUpdateInPlace" || !strings.Contains(p.Message, "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.certSANs") ||
		len(w.groupUpgrades()) != 0 {
		t.Errorf("%+v", p)
	}
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	if w.live(); slices.Contains(w.machineNames(), "demo-cp-1") || len(w.groupUpgrades()) != 0 {
		t.Errorf("%v", w.machineNames())
	}
}

// TestOtherRuntime: a machine whose node runs another runtime than containerd is not updated in place. Before anything begins it waits with
// the policy Only, and is replaced with Preferred. What changes nothing on its node is recorded all the same.
func TestOtherRuntime(t *testing.T) {
	w := grown(t, 1)
	w.view.Nodes[0].Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.35.0"
	other := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other-machines"}}
	if err := w.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = other.Name
	})
	if p := w.step(); p.Reason != "AsWanted" {
		t.Errorf("%+v", p)
	}
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	const why = "container runtime cri-o://1.35.0: must be containerd"
	if p := w.step(); p.Reason != "CannotUpdateInPlace" || !strings.Contains(p.Message, "demo-cp-1: "+why) || len(w.upgrades()) != 0 {
		t.Errorf("%+v", p)
	}
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	if w.live(); slices.Contains(w.machineNames(), "demo-cp-1") || len(w.groupUpgrades()) != 0 {
		t.Errorf("%v", w.machineNames())
	}
}

// TestUpdateFails: a failed upgrade waits for a person, and nothing else is begun; when it is not wanted any more it is forgotten.
func TestUpdateFails(t *testing.T) {
	w := grown(t, 3)
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	w.step()
	u := w.underway()
	w.endUpgrade(u, upgradev1.RolledBack)
	if p := w.step(); p.Reason != "UpdateFailed" || !strings.Contains(p.Message, "its message") || len(w.upgrades()) != 1 {
		t.Fatalf("%+v", p)
	}
	if group := w.groupUpgrades()[0]; len(group.Status.Failures) != 1 || group.Status.Failures[0].Machine != u.Spec.Machine.Name ||
		!conditions.IsFalse(&group, upgradev1.Progressing) {
		t.Errorf("%+v", group.Status)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.36.3" })
	if p := w.step(); p.Reason != "AsWanted" || len(w.upgrades()) != 0 || len(w.groupUpgrades()) != 0 {
		t.Errorf("%+v, %v, %v", p, w.upgrades(), w.groupUpgrades())
	}
}

// TestDrain: nodes are drained as the spec says. An upgrade that failed before it changed its node makes room for one that drains it as is
// wanted now.
func TestDrain(t *testing.T) {
	w := grown(t, 3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		inPlacePolicy(controlplanev1.InPlaceOnly)(kcp)
		kcp.Spec.InPlace.Drain = controlplanev1.InPlaceDrainSpec{Policy: controlplanev1.InPlaceDrainRequired, TimeoutSeconds: ptr.To[int32](60)}
	})
	w.step()
	u := w.underway()
	if u.Spec.Drain.Policy != upgradev1.DrainRequired || ptr.Deref(u.Spec.Drain.TimeoutSeconds, 0) != 60 {
		t.Fatalf("%+v", u.Spec.Drain)
	}
	w.endUpgrade(u, upgradev1.Failed)
	if p := w.step(); p.Reason != "UpdateFailed" {
		t.Fatalf("%+v", p)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Drain.Policy = controlplanev1.InPlaceDrainBestEffort
	})
	p := w.step()
	if again := w.underway(); p.Reason != "UpdatingInPlace" || again.Spec.Drain.Policy != upgradev1.DrainBestEffort {
		t.Errorf("%+v, %+v", p, again.Spec.Drain)
	}
}

// TestSecondVersion: what is under way is finished and recorded for what it was, and then the next begins.
func TestSecondVersion(t *testing.T) {
	w := grown(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		inPlacePolicy(controlplanev1.InPlaceOnly)(kcp)
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
	})
	w.step()
	first := w.underway()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version = "v1.37.1"
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs[0].Value = ptr.To("3")
	})
	if w.step(); w.underway().Name != first.Name {
		t.Fatal("a second one was begun")
	}
	w.endUpgrade(first, upgradev1.Done)
	if p := w.step(); p.Reason != "UpdatingInPlace" {
		t.Fatalf("%+v", p)
	}
	second := w.underway()
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-cp-1"}, config); err != nil {
		t.Fatal(err)
	}
	if got := *config.Spec.ClusterConfiguration.APIServer.ExtraArgs[0].Value; w.machine("demo-cp-1").Spec.Version != "v1.37.0" || got != "2" ||
		second.Spec.KubernetesVersion != "v1.37.1" {
		t.Errorf("recorded %s and %s, then %+v", w.machine("demo-cp-1").Spec.Version, got, second.Spec)
	}
	w.endUpgrade(second, upgradev1.Done)
	if p := w.step(); p.Reason != "AsWanted" || len(w.groupUpgrades()) != 1 {
		t.Errorf("%+v, %v", p, w.groupUpgrades())
	}
}

// TestBackAndForth: what was upgraded to the same before is upgraded again.
func TestBackAndForth(t *testing.T) {
	w := grown(t, 1)
	argument := func(value string) func(*controlplanev1.KubeadmControlPlane) {
		return func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Scheduler.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To(value)}}
		}
	}
	for _, value := range []string{"1", "2", "1", "2"} {
		w.change(argument(value))
		for range 3 { // what is left of the one before goes first, object by object
			w.step()
		}
		w.endUpgrade(w.underway(), upgradev1.Done)
		if p := w.step(); p.Reason != "AsWanted" {
			t.Fatalf("%s: %+v", value, p)
		}
	}
}

// TestUpgradeByHand: what a person upgraded by a NodeUpgrade of their own is recorded, as far as that says what it was.
func TestUpgradeByHand(t *testing.T) {
	w := grown(t, 1)
	u := &upgradev1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	u.Spec = upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: "demo-cp-1"}, KubernetesVersion: "v1.36.4",
		NodeType: upgradev1.ControlPlane}
	if err := w.client.Create(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	if p := w.step(); p.Reason != "UpdatingInPlace" {
		t.Errorf("%+v", p)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.36.4" })
	w.endUpgrade(u, upgradev1.Done)
	if p := w.step(); p.Reason != "AsWanted" || w.machine("demo-cp-1").Spec.Version != "v1.36.4" {
		t.Errorf("%+v", p)
	}
}

// TestExternal: somebody else is told, nothing is replaced, and the word is taken back when the machines are as wanted.
func TestExternal(t *testing.T) {
	w := grown(t, 1)
	w.change(inPlacePolicy(controlplanev1.InPlaceExternal))
	if p := w.step(); p.Reason != "UpdatedElsewhere" || w.kcp().Annotations[upgradev1.NeededAnnotation] != "v1.37.0" ||
		len(w.groupUpgrades()) != 0 {
		t.Fatalf("%+v, %v", p, w.kcp().Annotations)
	}
	m := w.machine("demo-cp-1")
	m.Spec.Version = "v1.37.0"
	if err := w.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	if p := w.step(); p.Reason != "AsWanted" {
		t.Fatalf("%+v", p)
	}
	if _, told := w.kcp().Annotations[upgradev1.NeededAnnotation]; told {
		t.Error("what is done is asked for")
	}
}

// TestRenewedCertificates: certificates that expire soon are renewed in place, once: the new date is recorded with the upgrade.
func TestRenewedCertificates(t *testing.T) {
	w := grown(t, 1)
	day := 24 * time.Hour
	soon, later := time.Now().Add(10*day).Truncate(time.Second), time.Now().Add(300*day).Truncate(time.Second)
	w.certificates(map[string]time.Time{"demo-cp-1": soon})
	config := func() *bootstrapv1.KubeadmConfig {
		t.Helper()
		config := &bootstrapv1.KubeadmConfig{}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-cp-1"}, config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	dated := config()
	metav1.SetMetaDataAnnotation(&dated.ObjectMeta, clusterv1.MachineCertificatesExpiryDateAnnotation, soon.UTC().Format(time.RFC3339))
	if err := w.client.Update(context.Background(), dated); err != nil {
		t.Fatal(err)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly
		kcp.Spec.Rollout.Before.CertificatesExpiryDays = 30
	})
	w.step()
	u := w.underway()
	w.certificates(map[string]time.Time{"demo-cp-1": later})
	w.endUpgrade(u, upgradev1.Done)
	if p := w.step(); p.Reason != "AsWanted" || len(w.upgrades()) != 0 {
		t.Errorf("%+v, %v", p, w.upgrades())
	}
	if got := config().Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]; got != later.UTC().Format(time.RFC3339) {
		t.Errorf("recorded is %s, want %s", got, later)
	}
}

// TestChangedNode: a node that was changed and not put back is not taken for one as its objects say.
func TestChangedNode(t *testing.T) {
	w := grown(t, 1)
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	w.step()
	u := w.underway()
	u.Status.Conditions = append(u.Status.Conditions, metav1.Condition{Type: string(steps.Swap), Status: metav1.ConditionTrue,
		Reason: upgradev1.Done, LastTransitionTime: metav1.Now()})
	w.endUpgrade(u, upgradev1.Failed)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.36.3" })
	if p := w.step(); p.Step != string(plan.Wait) || p.Reason != "UpdateFailed" || len(w.upgrades()) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestPausedByStranger: a ControlPlaneUpgrade that a person created for the control plane neither pauses its upgrade, nor is changed or
// deleted by it.
func TestPausedByStranger(t *testing.T) {
	w := grown(t, 3)
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	stranger := &upgradev1.ControlPlaneUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kcpKey.Namespace, Name: "stranger",
			Labels:      map[string]string{clusterv1.ClusterNameLabel: w.machine("demo-cp-1").Spec.ClusterName},
			Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
		},
		Spec: upgradev1.ControlPlaneUpgradeSpec{
			ControlPlane: clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane",
				Name: kcpKey.Name},
			KubernetesVersion: "v1.37.0", MachinesRequireUpgrade: []upgradev1.MachineReference{{Name: "demo-cp-1"}},
		},
	}
	if err := w.client.Create(t.Context(), stranger); err != nil {
		t.Fatal(err)
	}
	if p := w.step(); p.Reason != "UpdatingInPlace" || len(w.upgrades()) != 1 {
		t.Errorf("%+v", p)
	}
	w.step()
	after := &upgradev1.ControlPlaneUpgrade{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(stranger), after); err != nil || len(after.Status.Conditions) > 0 {
		t.Errorf("%v, %+v", err, after.Status)
	}
}

// TestUpgradePaused: a person holds an upgrade between two nodes. The one that has begun is finished and recorded; no other begins before
// the person says so.
func TestUpgradePaused(t *testing.T) {
	w := grown(t, 3)
	w.change(inPlacePolicy(controlplanev1.InPlacePreferred))
	w.step()
	hold := func(held bool) {
		group := w.groupUpgrades()[0]
		group.Annotations = map[string]string{}
		if held {
			group.Annotations[clusterv1.PausedAnnotation] = ""
		}
		if err := w.client.Update(context.Background(), &group); err != nil {
			t.Fatal(err)
		}
	}
	hold(true)
	first := w.underway()
	w.endUpgrade(first, upgradev1.Done)
	if p := w.step(); p.Reason != "UpdatesPaused" || len(w.upgrades()) != 0 {
		t.Errorf("%+v", p)
	}
	if m := w.machine(first.Spec.Machine.Name); m.Spec.Version != "v1.37.0" {
		t.Errorf("%s says %s", m.Name, m.Spec.Version)
	}
	if c := conditions.Get(&w.groupUpgrades()[0], upgradev1.Progressing); c.Reason != upgradev1.Paused {
		t.Errorf("%+v", c)
	}
	hold(false)
	if p := w.step(); p.Reason != "UpdatingInPlace" || w.underway().Spec.Machine.Name == first.Spec.Machine.Name {
		t.Errorf("%+v", p)
	}
}
