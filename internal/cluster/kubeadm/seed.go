package kubeadm

import (
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Unrecoverable returns why no seed can recover a cluster by the kind of its control plane; empty: one may.
func Unrecoverable(cluster *clusterv1.Cluster) string {
	ref := cluster.Spec.ControlPlaneRef
	switch {
	case ref.APIGroup == controlplanev1.GroupVersion.Group && ref.Kind == "KubeadmControlPlane":
		return ""
	case ref.APIGroup == controlplanev1.GroupVersion.Group && ref.Kind == "ControlPlane":
		return fmt.Sprintf("the control plane of Cluster %s is ControlPlane %s: its machines have bootstrap data of another provider, "+
			"to which Quorate cannot add that a seed is restored; must be a KubeadmControlPlane", cluster.Name, ref.Name)
	}
	return fmt.Sprintf("the control plane of Cluster %s is of kind %q: must be KubeadmControlPlane", cluster.Name, ref.Kind)
}

// UnrecoverableEtcd returns why no seed can recover a control plane as it is specified; empty: one can.
func UnrecoverableEtcd(kcp *controlplanev1.KubeadmControlPlane) string {
	spec := &kcp.Spec
	switch managed := spec.ManagedExternalEtcdRef; {
	case managed.Name != "":
		return fmt.Sprintf("the etcd of KubeadmControlPlane %s is %s %s, on machines of its own: an EtcdRecovery recovers etcd on the machines "+
			"of a control plane only", kcp.Name, managed.Kind, managed.Name)
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
