package nodeupgrade

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// owner refers to an object of a kind whose UID is "u" unless it is a Machine of the scene.
func owner(version, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID("u")}}
}

func ownedByMachine(name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: uid}}
}

func controlPlaneRef(name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: name}
}

// owners creates upgrades of several nodes, of the Cluster demo and of another one, and a MachineDeployment of each.
func (s *scene) owners() {
	s.Helper()
	cluster := &clusterv1.Cluster{}
	s.must(s.management.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, cluster))
	cluster.Spec.ControlPlaneRef = controlPlaneRef("demo-cp")
	s.must(s.management.Update(s.Context(), cluster))
	meta := func(name, cluster string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}
		if cluster != "" {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		}
		return m
	}
	for _, o := range []client.Object{
		&clusterv1.MachineDeployment{ObjectMeta: meta("demo-md", "demo"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "demo"}},
		&clusterv1.MachineDeployment{ObjectMeta: meta("other-md", "other"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "other"}},
		&upgradev1.ControlPlaneUpgrade{ObjectMeta: meta("own", "demo"),
			Spec: upgradev1.ControlPlaneUpgradeSpec{ControlPlane: controlPlaneRef("demo-cp")}},
		&upgradev1.ControlPlaneUpgrade{ObjectMeta: meta("labelled", "other"),
			Spec: upgradev1.ControlPlaneUpgradeSpec{ControlPlane: controlPlaneRef("demo-cp")}},
		&upgradev1.ControlPlaneUpgrade{ObjectMeta: meta("foreign", ""),
			Spec: upgradev1.ControlPlaneUpgradeSpec{ControlPlane: controlPlaneRef("other-cp")}},
		&upgradev1.MachineDeploymentUpgrade{ObjectMeta: meta("own", "demo"),
			Spec: upgradev1.MachineDeploymentUpgradeSpec{MachineDeployment: upgradev1.MachineReference{Name: "demo-md"}}},
		&upgradev1.MachineDeploymentUpgrade{ObjectMeta: meta("labelled", "other"),
			Spec: upgradev1.MachineDeploymentUpgradeSpec{MachineDeployment: upgradev1.MachineReference{Name: "demo-md"}}},
		&upgradev1.MachineDeploymentUpgrade{ObjectMeta: meta("foreign", "demo"),
			Spec: upgradev1.MachineDeploymentUpgradeSpec{MachineDeployment: upgradev1.MachineReference{Name: "other-md"}}},
	} {
		s.must(s.management.Create(s.Context(), o))
	}
}

// TestLies: a NodeUpgrade whose label or owner is of another Cluster or Machine than spec.machine fails for good, and touches neither
// cluster.
func TestLies(t *testing.T) {
	group := func(name string) []metav1.OwnerReference {
		return owner(upgradev1.GroupVersion.String(), "ControlPlaneUpgrade", name)
	}
	deployment := func(name string) []metav1.OwnerReference {
		return owner(upgradev1.GroupVersion.String(), "MachineDeploymentUpgrade", name)
	}
	for name, test := range map[string]struct {
		machine, label string
		owners         []metav1.OwnerReference
		wrong          string
	}{
		"another Cluster":         {"cp-1", "other", nil, `label cluster.x-k8s.io/cluster-name is "other": must be "demo"`},
		"a label that is no name": {"worker", "de/mo", nil, `label cluster.x-k8s.io/cluster-name is "de/mo": must be "demo"`},
		"another Machine owns": {"cp-1", "demo", ownedByMachine("cp-2", "uid-of-machine"),
			`metadata.ownerReferences[0] names Machine "cp-2": must be "cp-1"`},
		"an earlier Machine owns": {"cp-1", "demo", ownedByMachine("cp-1", "old"),
			`metadata.ownerReferences[0] has uid "old": must be "uid-of-machine"`},
		"the second owner": {"cp-1", "", append(group("own"), ownedByMachine("cp-3", "u")...),
			`metadata.ownerReferences[1] names Machine "cp-3"`},
		"a control plane's label": {"cp-1", "demo", group("labelled"),
			`names ControlPlaneUpgrade "labelled", whose label cluster.x-k8s.io/cluster-name is "other": must be "demo"`},
		"another control plane": {"cp-1", "", group("foreign"),
			`whose spec.controlPlane is KubeadmControlPlane "other-cp": must be KubeadmControlPlane "demo-cp"`},
		"a deployment's label": {"worker", "demo", deployment("labelled"), `names MachineDeploymentUpgrade "labelled", whose label`},
		"another deployment": {"worker", "", deployment("foreign"),
			`whose spec.machineDeployment is "other-md" of Cluster other: must be a MachineDeployment of Cluster demo`},
		"as it is":                   {"cp-1", "demo", ownedByMachine("cp-1", "uid-of-machine"), ""},
		"nothing said":               {"cp-1", "", nil, ""},
		"the own control plane":      {"cp-1", "demo", group("own"), ""},
		"the own deployment":         {"worker", "demo", deployment("own"), ""},
		"an owner that is not there": {"cp-1", "", group("x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.owners()
			u := s.upgrade(test.machine)
			after := u.DeepCopy()
			after.OwnerReferences = test.owners
			if test.label != "" {
				after.Labels = map[string]string{clusterv1.ClusterNameLabel: test.label}
			}
			s.must(s.management.Patch(t.Context(), after, client.MergeFrom(u)))
			if test.wrong == "" {
				s.begun(u)
				return
			}
			for range 3 {
				s.look(u)
			}
			s.expect(s.read(u), upgradev1.Failed, test.wrong)
			if s.pod(u) != nil || len(s.machine(test.machine).Annotations) != 0 {
				t.Errorf("something was done: %v, %v", s.pod(u), s.machine(test.machine).Annotations)
			}
		})
	}
}

// TestLieAboutBegun: an annotation or a status that claims that the upgrade had begun does not hide the lie; a pod on the node does, as it
// must be finished.
func TestLieAboutBegun(t *testing.T) {
	for name, begun := range map[string]bool{"claimed": false, "so": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			u := s.upgrade("cp-1")
			if begun {
				s.begun(u)
			}
			is := s.read(u)
			after := is.DeepCopy()
			after.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
			s.must(s.management.Patch(t.Context(), after, client.MergeFrom(is)))
			if !begun {
				claimed := after.DeepCopy()
				claimed.Status.Attempts = new(int32(1))
				s.must(s.management.Status().Patch(t.Context(), claimed, client.MergeFrom(after)))
			}
			for range 3 {
				s.look(u)
			}
			if begun {
				s.expect(s.read(u), upgradev1.Running, "")
				return
			}
			s.expect(s.read(u), upgradev1.Failed, `is "other": must be "demo"`)
			if s.pod(u) != nil {
				t.Error("a pod was made")
			}
		})
	}
}

// TestLieHoldsUpNobody: a NodeUpgrade with the label of a Cluster and a Machine of another one, or of none, does not come before the nodes
// of the Cluster.
func TestLieHoldsUpNobody(t *testing.T) {
	for name, of := range map[string]string{"of another Cluster": "other", "that does not exist": ""} {
		t.Run("a Machine "+name, func(t *testing.T) {
			s := newScene(t)
			if of != "" {
				s.must(s.management.Create(t.Context(), &clusterv1.Machine{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-1", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}},
					Spec:       clusterv1.MachineSpec{ClusterName: of},
				}))
			}
			liar := s.upgrade("a-1") // the older one, by its name
			after := liar.DeepCopy()
			after.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
			s.must(s.management.Patch(t.Context(), after, client.MergeFrom(liar)))
			s.begun(s.upgrade("cp-1"))
		})
	}
}
