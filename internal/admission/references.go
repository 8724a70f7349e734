package admission

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/machine"
)

// checkRef returns an error if a field names a kind that it must not name. Scope and rights of a kind are not known here: the controllers check these.
func checkRef(of machine.Ref, ref clusterv1.ContractVersionedObjectReference, at *field.Path) field.ErrorList {
	if !ref.IsDefined() {
		return nil
	}
	return checkKind(of, ref.GroupKind(), at)
}

// checkKind is checkRef for the kind alone.
func checkKind(of machine.Ref, gk schema.GroupKind, at *field.Path) field.ErrorList {
	if err := of.Check(gk); err != nil {
		return field.ErrorList{field.Invalid(at, gk.String(), err.Error())}
	}
	return nil
}

// checkManagedEtcd is checkRef for the object that keeps a control plane's etcd. Its name may be left out.
func checkManagedEtcd(ref controlplanev1.ManagedEtcdReference, spec *field.Path) field.ErrorList {
	if !ref.IsDefined() {
		return nil
	}
	return checkKind(machine.EtcdRef, schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, spec.Child("managedExternalEtcdRef"))
}
