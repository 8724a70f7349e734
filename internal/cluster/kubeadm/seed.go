package kubeadm

import (
	"context"
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// RecoveryTarget returns the object whose machines hold the etcd of a Cluster, and which a seed recovers: its KubeadmControlPlane, or the
// EtcdCluster that its control plane uses. why is why no seed can recover it; empty: one may.
func RecoveryTarget(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster,
) (target clusterv1.ContractVersionedObjectReference, why string, err error) {
	target = cluster.Spec.ControlPlaneRef
	if target.APIGroup != controlplanev1.GroupVersion.Group {
		return target, Unrecoverable(cluster), nil
	}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: target.Name}
	kcp, cp := &controlplanev1.KubeadmControlPlane{}, &controlplanev1alpha1.ControlPlane{}
	switch target.Kind {
	case kindKubeadm:
		if err := c.Get(ctx, key, kcp); err != nil {
			return target, "", fmt.Errorf("reading KubeadmControlPlane %s: %w", target.Name, err)
		}
		if kcp.Spec.ManagedExternalEtcdRef.IsDefined() {
			target, why = managedTarget(cluster, kcp.Spec.ManagedExternalEtcdRef)
			return target, why, nil
		}
		return target, UnrecoverableEtcd(kcp), nil
	case kindMachines:
		if err := c.Get(ctx, key, cp); err != nil {
			return target, "", fmt.Errorf("reading ControlPlane %s: %w", target.Name, err)
		}
		if cp.Spec.ManagedExternalEtcdRef.IsDefined() {
			target, why = managedTarget(cluster, cp.Spec.ManagedExternalEtcdRef)
			return target, why, nil
		}
	}
	return target, Unrecoverable(cluster), nil
}

// managedTarget is RecoveryTarget of a control plane whose etcd another object keeps.
func managedTarget(
	cluster *clusterv1.Cluster, ref controlplanev1.ManagedEtcdReference,
) (target clusterv1.ContractVersionedObjectReference, why string) {
	target = ref.Of(cluster.Name)
	if target.APIGroup == etcdclusterv1alpha1.GroupVersion.Group && target.Kind == "EtcdCluster" {
		return target, ""
	}
	return target, fmt.Sprintf("the etcd of Cluster %s is %s %s, which another provider keeps: recover it there", cluster.Name, target.Kind,
		target.Name)
}

// The kinds of control planes.
const (
	kindKubeadm  = "KubeadmControlPlane"
	kindMachines = "ControlPlane"
)

// Unrecoverable returns why no seed can recover a cluster by the kind of its control plane; empty: one may.
func Unrecoverable(cluster *clusterv1.Cluster) string {
	ref := cluster.Spec.ControlPlaneRef
	switch {
	case ref.APIGroup == controlplanev1.GroupVersion.Group && ref.Kind == kindKubeadm:
		return ""
	case ref.APIGroup == controlplanev1.GroupVersion.Group && ref.Kind == kindMachines:
		return fmt.Sprintf("the control plane of Cluster %s is ControlPlane %s: its machines have bootstrap data of another provider, "+
			"to which Quorate cannot add that a seed is restored; must be a KubeadmControlPlane, or have its etcd in an EtcdCluster",
			cluster.Name, ref.Name)
	}
	return fmt.Sprintf("the control plane of Cluster %s is of kind %q: must be KubeadmControlPlane", cluster.Name, ref.Kind)
}

// UnrecoverableEtcd returns why no seed can recover a control plane as it is specified; empty: one can.
func UnrecoverableEtcd(kcp *controlplanev1.KubeadmControlPlane) string {
	spec := &kcp.Spec
	switch managed := spec.ManagedExternalEtcdRef; {
	case managed.Name != "":
		return fmt.Sprintf("the etcd of KubeadmControlPlane %s is %s %s, on machines of its own: only a control plane with etcd on its own "+
			"machines can be made again from objects and a snapshot", kcp.Name, managed.Kind, managed.Name)
	case spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined():
		return fmt.Sprintf("the etcd of KubeadmControlPlane %s is external and does not run on its machines: recover it there", kcp.Name)
	}
	return Unseedable(&spec.KubeadmConfigSpec)
}

// dataFolder is where the script that restores a seed, and kubeadm's check that it passes over, expect etcd's data.
const dataFolder = "/var/lib/etcd"

// Unseedable returns why no machine of a configuration can restore a snapshot before it initialises a cluster; empty: it can.
func Unseedable(spec *bootstrapv1.KubeadmConfigSpec) string {
	if spec.Format == bootstrapv1.Ignition {
		return "spec.kubeadmConfigSpec.format is ignition: must be cloud-config, the only format in which Quorate can restore a seed"
	}
	if folder := spec.ClusterConfiguration.Etcd.Local.DataDir; folder != "" && folder != dataFolder {
		const field = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.dataDir"
		return fmt.Sprintf("%s is %q: must be %s to restore a seed", field, folder, dataFolder)
	}
	for i, f := range spec.Files {
		if f.ContentFormat != "" {
			return fmt.Sprintf("spec.kubeadmConfigSpec.files[%d].contentFormat is %q: must be empty to restore a seed", i, f.ContentFormat)
		}
	}
	return ""
}

// RecoveryProgress are the names of the annotations of an EtcdRecovery that say how far it is. They are a status that a move and a backup
// keep: once a recovery has begun by them, machines are given up whether etcd has a quorum or not.
func RecoveryProgress() []string {
	return []string{
		backupv1alpha1.RecoverySeedAnnotation, backupv1alpha1.RecoveryTakenAnnotation,
		backupv1alpha1.RecoveryBegunAnnotation, backupv1alpha1.RecoveryEndedAnnotation,
	}
}
