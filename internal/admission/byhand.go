package admission

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// checkMade returns an error if the controller of an upgrade of several nodes is not the object that it is of. Quorate creates such
// upgrades with that owner, and a move or a backup keeps it. One that a person creates without it would do nothing for ever.
func checkMade(u client.Object, kind schema.GroupKind, name, instead string) field.ErrorList {
	owner := metav1.GetControllerOf(u)
	if owner != nil && owner.Name == name && schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == kind {
		return nil
	}
	why := fmt.Sprintf("must be %s %s: Quorate creates this object to report an upgrade in place, and acts on no other; "+
		"to upgrade, %s; to upgrade one node, create a NodeUpgrade", kind.Kind, name, instead)
	value := "no controller"
	if owner != nil {
		value = owner.Kind + " " + owner.Name
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "ownerReferences"), value, why)}
}

// checkNeeded returns an error if an update adds the annotation by which Quorate asks others for an upgrade in place, to an object
// that leaves none to others.
func checkNeeded(before, after client.Object, policy controlplanev1.InPlacePolicy) field.ErrorList {
	_, had := before.GetAnnotations()[upgradev1.NeededAnnotation]
	value, has := after.GetAnnotations()[upgradev1.NeededAnnotation]
	if had || !has || policy == controlplanev1.InPlaceExternal {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(upgradev1.NeededAnnotation), value,
		"must not be set by hand: Quorate sets it where spec.inPlace.policy is External, for others who upgrade in place, "+
			"and takes it off otherwise; to upgrade, set spec.version; for Quorate to do it in place, set spec.inPlace.policy to Preferred or Only")}
}
