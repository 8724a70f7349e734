package manifest

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// Kind is a kind of control planes.
type Kind string

// The kinds of control planes that `quorate up` makes.
const (
	KubeadmControlPlane Kind = "KubeadmControlPlane"
	ControlPlane        Kind = "ControlPlane"
)

// controlPlaneGroup is the API group of both kinds.
var controlPlaneGroup = controlplanev1.GroupVersion.Group

// Kinds returns the names of all kinds, the default first.
func Kinds() []string { return []string{string(KubeadmControlPlane), string(ControlPlane)} }

// RepairsByDefault reports whether a control plane of this kind replaces machines that break unless it is told not to.
func (k Kind) RepairsByDefault() bool { return k == ControlPlane }

func checkKind(kind Kind) error {
	if slices.Contains(Kinds(), string(kind)) {
		return nil
	}
	return fmt.Errorf("invalid --kind %q: must be %s", kind, strings.Join(Kinds(), " or "))
}

// controlPlaneDocuments are the control plane, and before it the templates that it alone refers to.
func (c Cluster) controlPlaneDocuments() []Document {
	if c.Kind == ControlPlane {
		return []Document{
			{"How machines of the control plane are initialised and join. The first that takes the bootstrap provider's lock initialises;\n" +
				"kubeadm's phases, files and arguments are set here.", c.controlPlaneConfig()},
			{"The control plane: machines that are made from the two templates above.", c.controlPlane()},
		}
	}
	return []Document{{"The control plane. kubeadm's phases, files and arguments are set in kubeadmConfigSpec.", c.kubeadmControlPlane()}}
}

func (c Cluster) kubeadmControlPlane() *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: string(KubeadmControlPlane)},
		ObjectMeta: c.meta(controlPlaneName(c.Name)),
	}
	kcp.Spec.Replicas = ptr.To(c.Replicas)
	kcp.Spec.Version = c.Version
	kcp.Spec.MachineTemplate.Spec = upstream.KubeadmControlPlaneMachineTemplateSpec{
		InfrastructureRef: reference(infrav1.GroupVersion.Group, "LocalMachineTemplate", controlPlaneName(c.Name)),
		Deletion:          upstream.KubeadmControlPlaneMachineTemplateDeletionSpec{NodeDrainTimeoutSeconds: ptr.To(drainSeconds)},
	}
	kcp.Spec.KubeadmConfigSpec = kubeadm()
	if c.Etcd > 0 {
		kcp.Spec.ManagedExternalEtcdRef = etcdReference(c.Name)
	} else {
		kcp.Spec.Backup = c.backup()
	}
	if c.MaxParallel > 0 {
		kcp.Spec.Joins.MaxParallel = ptr.To(c.MaxParallel)
	}
	if c.Eager {
		kcp.Spec.Joins.Eager = ptr.To(true)
	}
	if c.AutoRepair {
		kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
	}
	if c.policy() != controlplanev1.InPlaceNever {
		kcp.Spec.InPlace.Policy = c.InPlace
	}
	return kcp
}

// controlPlane spells out whose etcd runs on the machines, which kubeadm decides here, and how many join at once and whether
// broken ones are replaced: neither default is that of the other kind.
func (c Cluster) controlPlane() *controlplanev1alpha1.ControlPlane {
	cp := &controlplanev1alpha1.ControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1alpha1.GroupVersion.String(), Kind: string(ControlPlane)},
		ObjectMeta: c.meta(controlPlaneName(c.Name)),
	}
	cp.Spec.Replicas = ptr.To(c.Replicas)
	cp.Spec.Version = c.Version
	cp.Spec.MachineTemplate.Spec = controlplanev1alpha1.ControlPlaneMachineTemplateSpec{
		InfrastructureRef: reference(infrav1.GroupVersion.Group, "LocalMachineTemplate", controlPlaneName(c.Name)),
		Bootstrap: controlplanev1alpha1.BootstrapSpec{
			ConfigRef: reference(bootstrapv1.GroupVersion.Group, "KubeadmConfigTemplate", controlPlaneName(c.Name)),
		},
		Deletion: clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: ptr.To(drainSeconds)},
	}
	cp.Spec.Etcd.Management = controlplanev1alpha1.EtcdManagementMembers
	if c.Etcd > 0 {
		cp.Spec.Etcd.Management, cp.Spec.ManagedExternalEtcdRef = controlplanev1alpha1.EtcdManagementNone, etcdReference(c.Name)
	} else {
		cp.Spec.Backup = c.backup()
	}
	cp.Spec.EnableAutorepair = ptr.To(c.AutoRepair)
	cp.Spec.Joins.MaxParallel = ptr.To(c.MaxParallel)
	if c.MaxParallel == 0 {
		cp.Spec.Joins.MaxParallel = ptr.To(mostReplicas)
	}
	if c.policy() != controlplanev1.InPlaceNever {
		cp.Spec.InPlace.Policy = c.InPlace
	}
	return cp
}

// controlPlaneConfig is what the kubeadm bootstrap provider makes the machines' configurations from. It takes from it what
// the first machine needs to initialise the cluster, and what all others need to join.
func (c Cluster) controlPlaneConfig() *bootstrapv1.KubeadmConfigTemplate {
	spec := kubeadm()
	spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	return c.configTemplate(controlPlaneName(c.Name), spec)
}

// maxParallel returns how many machines of a control plane may join at once; 0: as many as are missing.
func (k Kind) maxParallel(controlPlane *unstructured.Unstructured) int32 {
	n, found, _ := unstructured.NestedInt64(controlPlane.Object, maxParallelPath...)
	switch {
	case k != ControlPlane:
		return int32(n)
	case !found:
		return controlplanev1alpha1.DefaultMaxParallelJoins
	case n >= int64(mostReplicas):
		return 0
	}
	return int32(n)
}

// maxParallelValue returns the field for maxParallel machines; nil: the field is left out.
func (k Kind) maxParallelValue(maxParallel int32) any {
	switch {
	case maxParallel > 0:
		return int64(maxParallel)
	case k == ControlPlane:
		return int64(mostReplicas)
	}
	return nil
}

var maxParallelPath = []string{"spec", "joins", "maxParallel"}

// repairs reports whether a control plane replaces machines that break.
func (k Kind) repairs(controlPlane *unstructured.Unstructured) bool {
	if k == ControlPlane {
		repairs, found, _ := unstructured.NestedBool(controlPlane.Object, "spec", "enableAutorepair")
		return repairs || !found
	}
	_, repairs, _ := unstructured.NestedMap(controlPlane.Object, "spec", "autoRepair")
	return repairs
}

// repairPatch has machines that break replaced, or left as they are.
func (k Kind) repairPatch(repair bool) map[string]any {
	switch {
	case k == ControlPlane:
		return nested(repair, []string{"spec", "enableAutorepair"})
	case repair:
		return nested(map[string]any{}, []string{"spec", "autoRepair"})
	}
	return nested(nil, []string{"spec", "autoRepair"})
}
