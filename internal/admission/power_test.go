package admission

import (
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestPowerState: only a control plane is hibernated that can wake: with backups, and with etcd on its own machines.
func TestPowerState(t *testing.T) {
	d := ownDefinition(t, "kubeadmcontrolplanes")
	backup := &controlplanev1.BackupSpec{StoreRef: controlplanev1.BackupStoreReference{Name: "bucket"}, Schedule: "@daily"}
	for name, test := range map[string]struct {
		state    controlplanev1.PowerState
		change   func(*controlplanev1.KubeadmControlPlaneSpec)
		accepted bool
	}{
		"hibernated":             {controlplanev1.PowerHibernated, nil, true},
		"running":                {controlplanev1.PowerRunning, nil, true},
		"no such state":          {"Asleep", nil, false},
		"without backups":        {controlplanev1.PowerHibernated, func(s *controlplanev1.KubeadmControlPlaneSpec) { s.Backup = nil }, false},
		"running without backup": {controlplanev1.PowerRunning, func(s *controlplanev1.KubeadmControlPlaneSpec) { s.Backup = nil }, true},
		"external etcd": {controlplanev1.PowerHibernated, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{
				Endpoints: []string{"https://a:2379"}, CAFile: "ca", CertFile: "crt", KeyFile: "key",
			}
		}, false},
		"managed etcd": {controlplanev1.PowerHibernated, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster", Name: "e"}
		}, false},
	} {
		kcp := controlPlane()
		kcp.Spec.Backup, kcp.Spec.PowerState = backup, test.state
		if test.change != nil {
			test.change(&kcp.Spec)
		}
		if err := d.refusal(t, nil, kcp); (err == nil) != test.accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
}
