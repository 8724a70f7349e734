package admission

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// machinesOf returns a reader of Machines of the Clusters demo and other.
func machinesOf(t *testing.T) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, of := range []string{"demo", "other"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: of + "-cp-1"},
			Spec: clusterv1.MachineSpec{ClusterName: of}}
		m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		yes := true
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane",
			Name: of + "-cp", UID: "u", Controller: &yes}}
		w := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: of + "-w-1"},
			Spec: clusterv1.MachineSpec{ClusterName: of}}
		w.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: of + "-md"}
		b.WithObjects(m, w)
	}
	return b.Build()
}

func metaOf(cluster string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: "upgrade"}
	if cluster != "" {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	return m
}

// TestNodeUpgrade: names, images and the Machines of another Cluster are refused with their field; what is stored is not.
func TestNodeUpgrade(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, test := range []struct{ name, label, machine, image, want string }{
		{"good", "demo", "demo-cp-1", "quorate.io/upgrader:v1.36.3", ""},
		{"no label", "", "demo-cp-1", "", ""},
		{"no such Machine", "demo", "later", "", ""},
		{"another Cluster", "demo", "other-cp-1", "",
			`spec.machine.name: Invalid value: "other-cp-1": the Machine belongs to Cluster other: must be one of Cluster demo`},
		{"slash", "demo", "victim/demo-cp-1", "", "spec.machine.name: Invalid value"},
		{"path", "demo", "../../victim/machines/prize", "", "spec.machine.name: Invalid value"},
		{"control character", "demo", "demo\x1b[2J", "", "spec.machine.name: Invalid value"},
		{"image with port and digest", "demo", "demo-cp-1", "registry.example.com:5000/a/upgrader:v1" + digest, ""},
		{"image with digest", "demo", "demo-cp-1", "registry.example.com/upgrader" + digest, ""},
		{"flag", "demo", "demo-cp-1", "--privileged", "spec.upgraderImage: Invalid value"},
		{"flag with a name", "demo", "demo-cp-1", "-v.example.com/upgrader", "spec.upgraderImage: Invalid value"},
		{"space", "demo", "demo-cp-1", "upgrader:v1 --flag", "spec.upgraderImage: Invalid value"},
		{"space in the registry", "demo", "demo-cp-1", "a b.example.com/upgrader:v1", "spec.upgraderImage: Invalid value"},
		{"escape", "demo", "demo-cp-1", "upgrader\x1b[2J:v1", "spec.upgraderImage: Invalid value"},
		{"escape in the registry", "demo", "demo-cp-1", "a\x1b.example.com/upgrader:v1", "spec.upgraderImage: Invalid value"},
		{"newline", "demo", "demo-cp-1", "upgrader:v1\n", "spec.upgraderImage: Invalid value"},
		{"newline before a digest", "demo", "demo-cp-1", "upgrader:v1\n" + digest, "spec.upgraderImage: Invalid value"},
		{"URL", "demo", "demo-cp-1", "https://example.com/upgrader:v1", "spec.upgraderImage: Invalid value"},
		{"user", "demo", "demo-cp-1", "user@example.com/upgrader:v1", "spec.upgraderImage: Invalid value"},
		{"half a digest", "demo", "demo-cp-1", "upgrader@sha256:aa", "spec.upgraderImage: Invalid value"},
		{"quotes", "demo", "demo-cp-1", `upgrader:"v1"`, "spec.upgraderImage: Invalid value"},
		{"empty part", "demo", "demo-cp-1", "example.com//upgrader:v1", "spec.upgraderImage: Invalid value"},
		{"parent", "demo", "demo-cp-1", "example.com/../upgrader:v1", "spec.upgraderImage: Invalid value"},
	} {
		v := nodeUpgrades(machinesOf(t))
		u := &upgradev1.NodeUpgrade{ObjectMeta: metaOf(test.label),
			Spec: upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: test.machine}, UpgraderImage: test.image}}
		_, err := v.ValidateCreate(t.Context(), u)
		check(t, test.name, err, test.want)
		before := &upgradev1.NodeUpgrade{ObjectMeta: metaOf(test.label)}
		_, err = v.ValidateUpdate(t.Context(), before, u)
		check(t, test.name+" later", err, test.want)
		if _, err := v.ValidateUpdate(t.Context(), u, u.DeepCopy()); err != nil {
			t.Errorf("%s, stored: %v", test.name, err)
		}
	}
	stored := &upgradev1.NodeUpgrade{ObjectMeta: metaOf("demo"),
		Spec: upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: "demo-cp-1"}}}
	relabelled := stored.DeepCopy()
	relabelled.ObjectMeta = metaOf("other")
	_, err := nodeUpgrades(machinesOf(t)).ValidateUpdate(t.Context(), stored, relabelled)
	check(t, "relabelled", err, "spec.machine.name: Invalid value")
	if _, err := nodeUpgrades(nil).ValidateCreate(t.Context(), relabelled); err != nil {
		t.Errorf("without a reader: %v", err)
	}
}

func references(names ...string) []upgradev1.MachineReference {
	var all []upgradev1.MachineReference
	for _, n := range names {
		all = append(all, upgradev1.MachineReference{Name: n})
	}
	return all
}

// many returns that many names of Machines that do not exist, and then another one.
func many(n int, last string) []upgradev1.MachineReference {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("later-%d", i))
	}
	return references(append(names, last)...)
}

// TestControlPlaneUpgrade: Machines of another Cluster or control plane, and what is no control plane, are refused with their field.
func TestControlPlaneUpgrade(t *testing.T) {
	const kubeadm = "KubeadmControlPlane"
	for _, test := range []struct {
		name, label, group, kind, of string
		machines                     []upgradev1.MachineReference
		want                         string
	}{
		{"good", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", references("demo-cp-1", "later"), ""},
		{"another Cluster", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", references("demo-cp-1", "other-cp-1"),
			`spec.machinesRequireUpgrade[1].name: Invalid value: "other-cp-1": the Machine belongs to Cluster other: must be one of Cluster demo`},
		{"two Clusters", "", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", references("demo-cp-1", "other-cp-1"),
			"spec.machinesRequireUpgrade[1].name: Invalid value"},
		{"many", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", many(50, "other-cp-1"),
			"spec.machinesRequireUpgrade[50].name: Invalid value"},
		{"another control plane", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "second-cp", references("demo-cp-1"),
			"must be one of KubeadmControlPlane second-cp"},
		{"another kind", "demo", "controlplane.cluster.x-k8s.io", "ControlPlane", "demo-cp", references("demo-cp-1"),
			"must be one of ControlPlane demo-cp"},
		{"another group", "demo", "controlplane.example.com", kubeadm, "demo-cp", references("demo-cp-1"),
			"must be one of KubeadmControlPlane demo-cp"},
		{"a worker", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", references("demo-w-1"),
			"the Machine belongs to no control plane"},
		{"a role", "demo", "rbac.authorization.k8s.io", "ClusterRole", "demo-cp", references("demo-cp-1"), "spec.controlPlane: Invalid value"},
		{"path", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "../demo-cp", references("demo-cp-1"),
			"spec.controlPlane.name: Invalid value"},
		{"slash", "demo", "controlplane.cluster.x-k8s.io", kubeadm, "demo-cp", references("victim/prize"),
			"spec.machinesRequireUpgrade[0].name: Invalid value"},
	} {
		v := controlPlaneUpgrades(machinesOf(t))
		u := &upgradev1.ControlPlaneUpgrade{ObjectMeta: metaOf(test.label), Spec: upgradev1.ControlPlaneUpgradeSpec{
			ControlPlane:           clusterv1.ContractVersionedObjectReference{APIGroup: test.group, Kind: test.kind, Name: test.of},
			MachinesRequireUpgrade: test.machines,
		}}
		u.OwnerReferences = controlledBy(schema.GroupVersionKind{Group: test.group, Version: "v1beta2", Kind: test.kind}, test.of)
		_, err := v.ValidateCreate(t.Context(), u)
		check(t, test.name, err, test.want)
		if _, err := v.ValidateUpdate(t.Context(), u, u.DeepCopy()); err != nil {
			t.Errorf("%s, stored: %v", test.name, err)
		}
		after := u.DeepCopy()
		after.ObjectMeta = metaOf("third")
		_, err = v.ValidateUpdate(t.Context(), u, after)
		if test.name == "good" {
			check(t, test.name+" relabelled", err, "must be one of Cluster third")
		}
	}
}

// TestMachineDeploymentUpgrade: Machines of another Cluster or MachineDeployment are refused with their field.
func TestMachineDeploymentUpgrade(t *testing.T) {
	for _, test := range []struct {
		name, of string
		machines []upgradev1.MachineReference
		want     string
	}{
		{"good", "demo-md", references("demo-w-1", "later"), ""},
		{"another Cluster", "demo-md", references("other-w-1"), "the Machine belongs to Cluster other: must be one of Cluster demo"},
		{"another MachineDeployment", "second-md", references("demo-w-1"),
			`the Machine belongs to MachineDeployment "demo-md": must be one of "second-md"`},
		{"of a control plane", "demo-md", references("demo-cp-1"), "spec.machinesRequireUpgrade[0].name: Invalid value"},
		{"slash", "victim/demo-md", references("demo-w-1"), "spec.machineDeployment.name: Invalid value"},
		{"slash in a Machine", "demo-md", references("victim/prize"), "spec.machinesRequireUpgrade[0].name: Invalid value"},
	} {
		v := machineDeploymentUpgrades(machinesOf(t))
		u := &upgradev1.MachineDeploymentUpgrade{ObjectMeta: metaOf("demo"), Spec: upgradev1.MachineDeploymentUpgradeSpec{
			MachineDeployment: upgradev1.MachineReference{Name: test.of}, MachinesRequireUpgrade: test.machines,
		}}
		u.OwnerReferences = controlledBy(clusterv1.GroupVersion.WithKind("MachineDeployment"), test.of)
		_, err := v.ValidateCreate(t.Context(), u)
		check(t, test.name, err, test.want)
		if _, err := v.ValidateUpdate(t.Context(), u, u.DeepCopy()); err != nil {
			t.Errorf("%s, stored: %v", test.name, err)
		}
	}
}
