package embed

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"

	"github.com/quorate/quorate/internal/manager"
)

// noExtensions: nobody asked for Runtime Extensions, so none is registered, and none can be.
func (l *life) noExtensions(t *testing.T) {
	c := l.client(t)
	var all runtimev1.ExtensionConfigList
	if err := c.List(t.Context(), &all); err != nil || len(all.Items) != 0 {
		t.Errorf("%d ExtensionConfigs, %v", len(all.Items), err)
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://127.0.0.1:1"}}}
	if err := c.Create(t.Context(), config); err == nil || !strings.Contains(err.Error(), "RuntimeSDK") {
		t.Errorf("an ExtensionConfig is accepted: %v", err)
	}
}

// extension: asked for, they are there after the next start, and stay. Cluster API has found out what Quorate's Runtime Extension serves.
// Where it is stays true, all else of its registration is the user's.
func (l *life) extension(t *testing.T) {
	t.Setenv(runtimeExtensionsVariable, "true")
	before, _ := Running(l.o.State)
	l.up(t)
	pid, running := Running(l.o.State)
	if !running || pid == before {
		t.Fatalf("the daemon was process %d and is %d: another one has other settings", before, pid)
	}
	l.up(t)
	if now, _ := Running(l.o.State); now != pid {
		t.Errorf("the daemon was replaced for nothing")
	}
	c := l.client(t)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: extensionName}}
	// The condition is written before the handlers.
	eventually(t, "the Runtime Extension is discovered", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(config), config) == nil &&
			conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition) && len(config.Status.Handlers) > 0
	})
	var names []string
	for _, h := range config.Status.Handlers {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "can-update-machine.quorate") ||
		!strings.Contains(got, "can-update-machine-set.quorate") || !strings.Contains(got, "update-machine.quorate") {
		t.Errorf("handlers %s", got)
	}
	if config.Spec.Settings["policy"] != "Never" {
		t.Errorf("settings %v: nothing may be updated in place by itself", config.Spec.Settings)
	}
}

// update: a Machine that its owner has marked is updated by a NodeUpgrade, which Quorate's extension makes when Cluster API's controller
// calls it over TLS, and is not marked any more when that is completed.
func (l *life) update(t *testing.T) {
	c := l.client(t)
	paused := map[string]string{clusterv1.PausedAnnotation: "", clusterv1.UpdateInProgressAnnotation: ""}
	cluster := &clusterv1.Cluster{ObjectMeta: named("inplace"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
			Name: "inplace"},
	}}
	// The providers leave them alone, and the host as it is.
	infrastructure, bootstrap := &infrav1.LocalMachine{ObjectMeta: named("inplace")}, &bootstrapv1.KubeadmConfig{ObjectMeta: named("inplace")}
	infrastructure.Annotations, bootstrap.Annotations = paused, paused
	machine := &clusterv1.Machine{ObjectMeta: named("inplace"), Spec: clusterv1.MachineSpec{
		ClusterName: "inplace", Version: "v1.36.3",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine",
			Name: "inplace"},
		Bootstrap: clusterv1.Bootstrap{
			DataSecretName: ptr.To("inplace"),
			ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
				Name: "inplace"},
		},
	}}
	machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	create(t, c, cluster, infrastructure, bootstrap, machine)
	change := func(what string, status bool, f func()) {
		t.Helper()
		eventually(t, what, func() bool {
			if c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine) != nil {
				return false
			}
			before := machine.DeepCopy()
			f()
			if status {
				return c.Status().Patch(t.Context(), machine, client.MergeFrom(before)) == nil
			}
			return c.Patch(t.Context(), machine, client.MergeFrom(before)) == nil
		})
	}
	change("the Machine has a node", true, func() {
		machine.Status.Initialization = clusterv1.MachineInitializationStatus{InfrastructureProvisioned: ptr.To(true),
			BootstrapDataSecretCreated: ptr.To(true)}
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "inplace"}
	})
	change("the Machine is marked", false, func() {
		if machine.Annotations == nil {
			machine.Annotations = map[string]string{}
		}
		machine.Annotations[clusterv1.UpdateInProgressAnnotation], machine.Annotations[runtimev1.PendingHooksAnnotation] = "", "UpdateMachine"
	})
	var all upgradev1.NodeUpgradeList
	eventually(t, "there is a NodeUpgrade", func() bool {
		return c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault)) == nil && len(all.Items) > 0
	})
	upgrade := &all.Items[0]
	if s := upgrade.Spec; s.Machine.Name != "inplace" || s.KubernetesVersion != "v1.36.3" || s.NodeType != upgradev1.ControlPlane ||
		!metav1.IsControlledBy(upgrade, machine) {
		t.Errorf("NodeUpgrade %+v of %v", s, upgrade.OwnerReferences)
	}
	eventually(t, "the Machine says that it is being updated", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine) == nil &&
			conditions.GetReason(machine, clusterv1.MachineUpdatingCondition) == clusterv1.MachineInPlaceUpdatingReason
	})
	t.Logf("it says: %s", conditions.GetMessage(machine, clusterv1.MachineUpdatingCondition))
	eventually(t, "the NodeUpgrade is completed", func() bool {
		if c.Get(t.Context(), client.ObjectKeyFromObject(upgrade), upgrade) != nil {
			return false
		}
		before := upgrade.DeepCopy()
		upgrade.Status.Completed = ptr.To(true)
		return c.Status().Patch(t.Context(), upgrade, client.MergeFrom(before)) == nil
	})
	eventually(t, "the update has ended", func() bool {
		if c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine) != nil {
			return false
		}
		_, marked := machine.Annotations[clusterv1.UpdateInProgressAnnotation]
		return !marked && machine.Annotations[runtimev1.PendingHooksAnnotation] == ""
	})
	if err := c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault)); err != nil || len(all.Items) != 1 {
		t.Errorf("%d NodeUpgrades, %v", len(all.Items), err)
	}
}

// TestPutExtension: a registration is corrected where it must be, and the user's part of it stays.
func TestPutExtension(t *testing.T) {
	here, there := runtimev1.ClientConfig{URL: "https://127.0.0.1:1", CABundle: []byte("a")},
		runtimev1.ClientConfig{URL: "https://127.0.0.1:2", CABundle: []byte("b")}
	c := newFake(t)
	read := func() *runtimev1.ExtensionConfig {
		t.Helper()
		config := &runtimev1.ExtensionConfig{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: extensionName}, config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	if err := putExtension(t.Context(), c, here); err != nil {
		t.Fatal(err)
	}
	made := read()
	if made.Spec.ClientConfig.URL != here.URL || made.Spec.Settings["policy"] != "Never" {
		t.Errorf("made %+v", made.Spec)
	}
	made.Spec.Settings["policy"] = "Preferred"
	if err := c.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if err := putExtension(t.Context(), c, here); err != nil {
		t.Fatal(err)
	}
	if now := read(); now.ResourceVersion != made.ResourceVersion {
		t.Errorf("it was written although it was right: %+v", now.Spec)
	}
	if err := putExtension(t.Context(), c, there); err != nil {
		t.Fatal(err)
	}
	if now := read().Spec; now.ClientConfig.URL != there.URL || string(now.ClientConfig.CABundle) != "b" ||
		now.Settings["policy"] != "Preferred" {
		t.Errorf("corrected %+v", now)
	}
}

func newFake(t *testing.T) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
}

// TestPortsOfAnOlderEnvironment: ports that it has stay, the others are chosen.
func TestPortsOfAnOlderEnvironment(t *testing.T) {
	old := Ports{Etcd: 20001, EtcdPeer: 20002, APIServer: 20003, Webhooks: 20004, Metrics: 20005}
	got, err := old.complete()
	if err != nil {
		t.Fatal(err)
	}
	if got.Extension < firstPort || got.Extension > lastPort || got.Extension >= 20001 && got.Extension <= 20005 {
		t.Errorf("port %d for the extension", got.Extension)
	}
	got.Extension = 0
	if got != old {
		t.Errorf("%+v, want %+v", got, old)
	}
}
