package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// checkRef returns an error if a field names a kind that it must not name. Scope and rights of a kind are not known here: the controllers
// check these.
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

// checkOwnEtcd refuses the EtcdCluster of another Cluster. of is a new control plane; where its own Cluster is not known yet, and of the
// kinds of other providers, the controller checks it.
func checkOwnEtcd(ctx context.Context, reader client.Reader, of client.Object, ref controlplanev1.ManagedEtcdReference) error {
	cluster := of.GetLabels()[clusterv1.ClusterNameLabel]
	if reader == nil || cluster == "" || ref.APIGroup != etcdclusterv1alpha1.GroupVersion.Group || ref.Kind != "EtcdCluster" {
		return nil
	}
	e := &etcdclusterv1alpha1.EtcdCluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Of(cluster).Name}, e)
	if apierrors.IsForbidden(err) {
		return nil // a manager of another namespace: the controller checks it
	}
	if client.IgnoreNotFound(err) != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading EtcdCluster %s: %w", ref.Of(cluster).Name, err))
	}
	other := etcdadm.ClusterOf(e)
	if other == "" || other == cluster {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: controlplanev1.GroupVersion.Group}, of.GetName(), field.ErrorList{
		field.Invalid(field.NewPath("spec", "managedExternalEtcdRef", "name"), e.Name,
			fmt.Sprintf("it belongs to Cluster %s, not to %s: a control plane can use only the etcd of its own Cluster", other, cluster)),
	})
}
