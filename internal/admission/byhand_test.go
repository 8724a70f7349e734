package admission

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// controlledBy returns the reference to a controller of that kind and name.
func controlledBy(kind schema.GroupVersionKind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: name, UID: "uid"}, kind)}
}

// TestUpgradesByHand: an upgrade of several nodes that Quorate did not create is refused with what to do instead.
func TestUpgradesByHand(t *testing.T) {
	kcp, cp := controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), controlplanev1alpha1.GroupVersion.WithKind("ControlPlane")
	md := clusterv1.GroupVersion.WithKind("MachineDeployment")
	notController := controlledBy(kcp, "demo-cp")
	notController[0].Controller = nil
	for name, test := range map[string]struct {
		owners     []metav1.OwnerReference
		group      string
		deployment string
	}{
		"by a person": {nil, `Invalid value: "no controller": must be KubeadmControlPlane demo-cp: Quorate creates`,
			`must be MachineDeployment demo-cp: Quorate creates`},
		"of another control plane": {controlledBy(kcp, "other"),
			`Invalid value: "KubeadmControlPlane other": must be KubeadmControlPlane demo-cp`, "must be MachineDeployment demo-cp"},
		"of another kind": {controlledBy(cp, "demo-cp"), `Invalid value: "ControlPlane demo-cp": must be`,
			`Invalid value: "ControlPlane demo-cp": must be`},
		"of an owner without control": {notController, `Invalid value: "no controller": must be`, `Invalid value: "no controller": must be`},
		"of the control plane":        {controlledBy(kcp, "demo-cp"), "", "must be MachineDeployment demo-cp"},
		"of it, in an older version": {controlledBy(schema.GroupVersionKind{Group: kcp.Group, Version: "v1beta1", Kind: kcp.Kind}, "demo-cp"),
			"", "must be"},
		"of the MachineDeployment": {controlledBy(md, "demo-cp"), "must be KubeadmControlPlane demo-cp", ""},
	} {
		u := &upgradev1.ControlPlaneUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "u", OwnerReferences: test.owners}}
		u.Spec.ControlPlane = clusterv1.ContractVersionedObjectReference{APIGroup: kcp.Group, Kind: kcp.Kind, Name: "demo-cp"}
		_, err := controlPlaneUpgrades(nil).ValidateCreate(t.Context(), u)
		check(t, name, err, test.group)
		if err != nil && !strings.Contains(err.Error(),
			"set its spec.version and spec.inPlace.policy; to upgrade one node, create a NodeUpgrade") {
			t.Errorf("%s: it does not say what to do: %v", name, err)
		}
		if _, err := controlPlaneUpgrades(nil).ValidateUpdate(t.Context(), u, u.DeepCopy()); err != nil {
			t.Errorf("%s: what is stored is refused: %v", name, err)
		}
		w := &upgradev1.MachineDeploymentUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "u", OwnerReferences: test.owners}}
		w.Spec.MachineDeployment.Name = "demo-cp"
		_, err = machineDeploymentUpgrades(nil).ValidateCreate(t.Context(), w)
		check(t, name+", workers", err, test.deployment)
		if err != nil && !strings.Contains(err.Error(), "the annotation upgrade.cluster.x-k8s.io/in-place-policy; to upgrade one node") {
			t.Errorf("%s: it does not say what to do: %v", name, err)
		}
		if _, err := machineDeploymentUpgrades(nil).ValidateUpdate(t.Context(), w, w.DeepCopy()); err != nil {
			t.Errorf("%s: what is stored is refused: %v", name, err)
		}
	}
}

// TestNeededByHand: the annotation that asks others for an upgrade in place is refused on an object that leaves none to others.
func TestNeededByHand(t *testing.T) {
	const refused = `metadata.annotations[controlplane.cluster.x-k8s.io/in-place-upgrade-needed]: Invalid value: "v1.37.0": must not be set ` +
		`by hand`
	for _, test := range []struct {
		name   string
		had    bool
		policy controlplanev1.InPlacePolicy
		want   string
	}{
		{"no policy", false, "", refused},
		{"replaced", false, controlplanev1.InPlaceNever, refused},
		{"in place by Quorate", false, controlplanev1.InPlacePreferred, refused},
		{"by others", false, controlplanev1.InPlaceExternal, ""},
		{"it is there already", true, controlplanev1.InPlaceNever, ""},
	} {
		annotated := map[string]string{upgradev1.NeededAnnotation: "v1.37.0"}
		before, after := controlPlane(), controlPlane()
		before.Spec.InPlace.Policy, after.Spec.InPlace.Policy, after.Annotations = test.policy, test.policy, annotated
		if test.had {
			before.Annotations = annotated
		}
		_, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
		check(t, test.name, err, test.want)
		if _, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), after, before); err != nil {
			t.Errorf("%s: it cannot be taken off: %v", test.name, err)
		}
		was, is := machines(), machines()
		was.Spec.InPlace.Policy, is.Spec.InPlace.Policy, is.Annotations = test.policy, test.policy, annotated
		was.Annotations = before.Annotations
		_, err = (&ControlPlane{}).ValidateUpdate(t.Context(), was, is)
		check(t, test.name+", ControlPlane", err, test.want)
	}
}
