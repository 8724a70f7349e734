package rights

import "maps"

const (
	backup         = "backup.quorate.io"
	bootstrap      = "bootstrap.cluster.x-k8s.io"
	cluster        = "cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
	events         = "events.k8s.io"
	infrastructure = "infrastructure.cluster.x-k8s.io"
	etcdCluster    = "etcdcluster.cluster.x-k8s.io"
	upgrade        = "upgrade.cluster.x-k8s.io"
	runtimeHooks   = "runtime.cluster.x-k8s.io"
)

// rare are the grants of Quorate's role that the making and the repair of a control plane may go without, each with what
// needs it. Every other grant is used by one of them.
var rare = map[Right]string{
	{"get", backup, "backupstores"}:                 "there is spec.backup",
	{"get", backup, "clusterbackupstores"}:          "spec.backup.storeRef has the kind ClusterBackupStore",
	{"patch", backup, "backupstores"}:               "something uses a BackupStore",
	{"patch", backup, "backupstores/status"}:        "there is a BackupStore",
	{"patch", backup, "clusterbackupstores"}:        "something uses a ClusterBackupStore",
	{"patch", backup, "clusterbackupstores/status"}: "there is a ClusterBackupStore",
	{"update", "", "secrets"}:                       "a kubeconfig is written again before its certificate ends",
	{"patch", "", "secrets"}:                        "a secret that lost its owner is owned again",
	{"patch", events, "events"}:                     "an event that is repeated becomes one with a count",
	{"patch", backup, "etcdrecoveries"}:             "there is an EtcdRecovery",
	{"create", backup, "etcdrecoveries"}:            "a hibernated control plane wakes",
	{"patch", cluster, "clusters"}:                  "a cluster whose topology names numbers of workers hibernates",
	{"patch", backup, "etcdrecoveries/status"}:      "there is an EtcdRecovery",
	{"update", controlPlane,
		"kubeadmcontrolplanes/finalizers"}: "asked for by the admission plugin OwnerReferencesPermissionEnforcement, where " +
		"that is on, of a user who sets an owner reference that blocks the owner's deletion",
	{"get", controlPlane, "kubeadmcontrolplanes"}: "the cache has not shown the control plane's last write",
	{"get", cluster, "machines"}:                  "the cache has not shown a Machine that was just made",
	{"patch", cluster, "machinehealthchecks"}:     "spec.autoRepair is changed",
	{"delete", cluster, "machinehealthchecks"}:    "spec.autoRepair is taken away",
	{"get", bootstrap, "kubeadmconfigs"}:          "the creation of a machine was cut short",
	{"delete", bootstrap, "kubeadmconfigs"}:       "a machine whose creation was cut short is not wanted any more",
	{"patch", bootstrap, "kubeadmconfigs"}:        "a machine is adopted, or labels in the spec are changed",
	{"get", bootstrap, "*"}:                       "the creation of a machine of a ControlPlane was cut short",
	{"delete", bootstrap, "*"}: "a machine of a ControlPlane whose creation was cut short is not wanted " +
		"any more",
	{"patch", bootstrap, "*"}:                            "labels of a ControlPlane's bootstrap objects change",
	{"patch", controlPlane, "controlplanes"}:             "there is a ControlPlane",
	{"patch", controlPlane, "controlplanes/status"}:      "there is a ControlPlane",
	{"get", controlPlane, "controlplanes"}:               "a ControlPlane adopts machines",
	{"update", controlPlane, "controlplanes/finalizers"}: "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"delete", "", "configmaps"}:                         "an EtcdCluster was initialised: its lock goes",
	{"get", bootstrap, "etcdadmconfigs"}:                 "there is an EtcdadmConfig",
	{"patch", bootstrap, "etcdadmconfigs"}:               "there is an EtcdadmConfig",
	{"patch", bootstrap, "etcdadmconfigs/status"}:        "there is an EtcdadmConfig",
	{"update", bootstrap, "etcdadmconfigs/finalizers"}:   "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"get", etcdCluster, "etcdclusters"}:                 "a machine of an EtcdCluster is given bootstrap data",
	{"update", etcdCluster, "etcdclusters/finalizers"}:   "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"create", bootstrap, "etcdadmconfigs"}:              "there is an EtcdCluster",
	{"delete", bootstrap, "etcdadmconfigs"}: "a machine of an EtcdCluster whose creation was cut short is not wanted " +
		"any more",
	{"patch", etcdCluster, "etcdclusters"}:                      "there is an EtcdCluster",
	{"create", etcdCluster, "etcdclusters"}:                     "there is an EtcdadmCluster of aws/etcdadm-controller's manifests",
	{"patch", etcdCluster, "etcdadmclusters"}:                   "an EtcdadmCluster is taken over",
	{"patch", etcdCluster, "etcdadmclusters/status"}:            "there is an EtcdadmCluster",
	{"update", etcdCluster, "etcdadmclusters/finalizers"}:       "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"patch", etcdCluster, "etcdclusters/status"}:               "there is an EtcdCluster",
	{"delete", etcdCluster, "etcdclusters"}:                     "a Cluster with an EtcdCluster is deleted",
	{"delete", controlPlane, "kubeadmcontrolplanes"}:            "a Cluster with an EtcdCluster is deleted, whose control plane goes first",
	{"delete", controlPlane, "controlplanes"}:                   "a Cluster with an EtcdCluster is deleted, whose control plane goes first",
	{"list", runtimeHooks, "extensionconfigs"}:                  "machines are changed in place by a Runtime Extension of others",
	{"get", "", "namespaces"}:                                   "an ExtensionConfig of others, or a ClusterBackupStore, has a selector",
	{"create", upgrade, "nodeupgrades"}:                         "a machine is upgraded in place",
	{"patch", upgrade, "nodeupgrades"}:                          "a machine is upgraded in place",
	{"patch", upgrade, "nodeupgrades/status"}:                   "a machine is upgraded in place",
	{"delete", upgrade, "nodeupgrades"}:                         "the upgrade of a machine failed and is not wanted any more, or is repeated",
	{"patch", cluster, "machinedeployments"}:                    "others are told that workers are to be upgraded in place",
	{"list", cluster, "machinesets"}:                            "a MachineDeployment's machines are upgraded in place",
	{"watch", cluster, "machinesets"}:                           "a MachineDeployment's machines are upgraded in place",
	{"patch", cluster, "machinesets"}:                           "all workers of a MachineSet were upgraded in place",
	{"update", cluster, "machinedeployments/finalizers"}:        "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"create", upgrade, "machinedeploymentupgrades"}:            "workers are upgraded in place",
	{"delete", upgrade, "machinedeploymentupgrades"}:            "another upgrade of workers is wanted than before",
	{"patch", upgrade, "machinedeploymentupgrades/status"}:      "workers are upgraded in place",
	{"update", upgrade, "machinedeploymentupgrades/finalizers"}: "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"create", upgrade, "controlplaneupgrades"}:                 "a machine is upgraded in place",
	{"get", upgrade, "controlplaneupgrades"}:                    "a second machine is upgraded in place",
	{"delete", upgrade, "controlplaneupgrades"}:                 "another upgrade in place is wanted than before",
	{"patch", upgrade, "controlplaneupgrades/status"}:           "a machine is upgraded in place",
	{"update", upgrade, "controlplaneupgrades/finalizers"}:      "the API server asks for it where OwnerReferencesPermissionEnforcement is on",
	{"get", infrastructure, "*"}:                                "the creation of a machine was cut short",
	{"delete", infrastructure, "*"}:                             "a machine whose creation was cut short is not wanted any more",
}

// repairing are the grants that only the repair of a control plane uses, as a rule.
var repairing = map[Right]string{
	{"create", cluster, "machinehealthchecks"}: "spec.autoRepair",
}

// Expected returns those of unused grants that are to be used by a life of a control plane: by its making, or, with
// repair, by its making and repair together.
func Expected(unused []Right, repair bool) []Right {
	excused := maps.Clone(rare)
	if !repair {
		maps.Copy(excused, repairing)
	}
	var left []Right
	for _, u := range unused {
		if _, ok := excused[u]; !ok {
			left = append(left, u)
		}
	}
	return left
}
