package etcdcluster

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// TakeDown implements group.Kind: the order in which a cluster goes, workers, control plane, etcd. Cluster API deletes the control plane
// only when all other Machines of a Cluster are gone, those of etcd among them, and the control plane needs etcd to the end. So the
// last two are deleted here, once no other Machine is left. An etcd cluster that was deleted first waits for the control plane, which is
// deleted here all the same.
func (*Kind) TakeDown(ctx context.Context, t *act.Writer) error {
	if t.Cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	remain, err := workersRemain(ctx, t)
	if err != nil || remain {
		return err
	}
	ref := t.Cluster.Spec.ControlPlaneRef
	controlPlane, err := t.Find(ctx, machine.ControlPlaneRef, ref)
	switch {
	case ref.IsDefined() && machine.ControlPlaneRef.Check(ref.GroupKind()) != nil:
		return deleteOnce(ctx, t, t.Object) // no control plane has ever used it
	case err != nil:
		return err
	case controlPlane == nil:
		return deleteOnce(ctx, t, t.Object)
	case controlPlane.GetDeletionTimestamp().IsZero():
		return deleteOnce(ctx, t, controlPlane)
	}
	return nil
}

// workersRemain reports whether the cluster has Machines that are neither the control plane's nor etcd's, or MachinePools.
func workersRemain(ctx context.Context, t *act.Writer) (bool, error) {
	pools, err := observe.ListMachinePools(ctx, t.Cache, t.Cluster.Namespace, t.Cluster.Name)
	if err != nil || len(pools) > 0 {
		return true, err
	}
	all := &clusterv1.MachineList{}
	if err := t.Cache.List(ctx, all, client.InNamespace(t.Cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: t.Cluster.Name}); err != nil {
		return true, fmt.Errorf("listing the Machines of cluster %s: %w", t.Cluster.Name, err)
	}
	for i := range all.Items {
		if m := &all.Items[i]; !machine.IsControlPlane(m) && !machine.IsEtcd(m) {
			return true, nil
		}
	}
	return false, nil
}

// deleteOnce deletes an object, of this very UID.
func deleteOnce(ctx context.Context, t *act.Writer, o client.Object) error {
	if err := t.Delete(ctx, o, false); act.IgnoreStale(err) != nil {
		return fmt.Errorf("deleting %s with its cluster: %w", o.GetName(), err)
	}
	return nil
}
