package extension

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// TestOtherRuntime: machines on whose nodes another runtime than containerd runs are left to Cluster API, which replaces them; with the
// policy Only the answer is a failure. Nothing is patched: what is covered by patches is updated in place.
func TestOtherRuntime(t *testing.T) {
	const why = "Machine m: container runtime cri-o://1.35.0: must be containerd"
	for name, c := range map[string]struct {
		policy, runtime, from string
		status                runtimehooksv1.ResponseStatus
		patched               bool
		message               string
	}{
		"containerd": {policy: "Preferred", runtime: "containerd://2.4.2", from: "v1.35.4", status: "Success", patched: true},
		"not known":  {policy: "Preferred", from: "v1.35.4", status: "Success", patched: true},
		"replaced":   {policy: "Preferred", runtime: "cri-o://1.35.0", from: "v1.35.4", status: "Success", message: why},
		"only": {policy: "Only", runtime: "cri-o://1.35.0", from: "v1.35.4", status: "Failure",
			message: why + "; policy Only keeps it"},
		"nothing changes": {policy: "Only", runtime: "cri-o://1.35.0", from: "v1.36.3", status: "Success"},
	} {
		t.Run(name, func(t *testing.T) {
			m, other := machineObject("m", "v1.35.4", false), machineObject("other", "v1.35.4", false)
			m.Status.NodeInfo = &corev1.NodeSystemInfo{ContainerRuntimeVersion: c.runtime}
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set",
				Controller: new(true)}}
			other.Status.NodeInfo = &corev1.NodeSystemInfo{ContainerRuntimeVersion: "cri-o://1.35.0"}
			e := &Extension{Client: newClient(t, m, other)}
			annotations := map[string]string{upgradev1.PolicyAnnotation: c.policy}

			one, answered := &runtimehooksv1.CanUpdateMachineRequest{}, &runtimehooksv1.CanUpdateMachineResponse{}
			one.Current.Machine.Spec.Version, one.Desired.Machine.Spec.Version = c.from, "v1.36.3"
			one.Desired.Machine.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "m", Annotations: annotations}
			one.Current.Machine.Spec.ClusterName, one.Desired.Machine.Spec.ClusterName = "c", "c"
			e.CanUpdateMachine(t.Context(), one, answered)
			expect(t, answered, c.status, c.message)
			if answered.MachinePatch.IsDefined() != c.patched {
				t.Errorf("patch %s, want it: %t", answered.MachinePatch.Patch, c.patched)
			}

			set, all := &runtimehooksv1.CanUpdateMachineSetRequest{}, &runtimehooksv1.CanUpdateMachineSetResponse{}
			was, wanted := &set.Current.MachineSet.Spec.Template.Spec, &set.Desired.MachineSet.Spec.Template.Spec
			was.Version, wanted.Version, was.ClusterName, wanted.ClusterName = c.from, "v1.36.3", "c", "c"
			set.Current.MachineSet.Name = "set"
			set.Desired.MachineSet.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "set", Annotations: annotations}
			e.CanUpdateMachineSet(t.Context(), set, all)
			expect(t, all, c.status, c.message)
			if all.MachineSetPatch.IsDefined() != c.patched {
				t.Errorf("patch of the MachineSet %s, want it: %t", all.MachineSetPatch.Patch, c.patched)
			}
		})
	}
}
