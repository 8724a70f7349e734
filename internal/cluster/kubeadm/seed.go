package kubeadm

import (
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

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
