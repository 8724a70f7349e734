package admission

import (
	"testing"

	"k8s.io/utils/ptr"
	upstreamv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func controlPlane() *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Version = "v1.36.3"
	kcp.Spec.Joins.MaxParallel = ptr.To[int32](2)
	kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "LocalMachineTemplate", Name: "demo"}
	return kcp
}

// What upstream's controller counts on is there, and what Quorate adds stays.
func TestDefault(t *testing.T) {
	kcp := controlPlane()
	kcp.Spec.Version = "1.36.3"
	if err := (&ControlPlane{}).Default(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	s := kcp.Spec
	if ptr.Deref(s.Replicas, 0) != 1 || s.Version != "v1.36.3" || s.Rollout.Strategy.Type != upstreamv1.RollingUpdateStrategyType || s.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("defaults are %+v", s.KubeadmControlPlaneSpec)
	}
	if ptr.Deref(s.Joins.MaxParallel, 0) != 2 || s.AutoRepair == nil {
		t.Errorf("additions are %+v", s.Additions)
	}
}

func TestControlPlane(t *testing.T) {
	type spec = controlplanev1.KubeadmControlPlaneSpec
	for _, row := range []struct {
		name            string
		change          func(*spec)
		created, update string
	}{
		{"as it is", func(*spec) {}, "", ""},
		{"an even number", func(s *spec) { s.Replicas = ptr.To[int32](2) }, "even number", "even number"},
		{"no version", func(s *spec) { s.Version = "v1" }, "valid semantic version", "valid semantic version"},
		{"a leap", func(s *spec) { s.Version = "v1.38.0" }, "", "spec.version"},
		{"a way back", func(s *spec) { s.Version = "v1.35.4" }, "", ""},
		{"another name of certificates", func(s *spec) { s.KubeadmConfigSpec.ClusterConfiguration.CertificatesDir = "/x" }, "", "certificatesDir"},
		{"what Quorate adds", func(s *spec) { s.Joins.MaxParallel, s.AutoRepair = nil, nil }, "", ""},
	} {
		before := controlPlane()
		if err := (&ControlPlane{}).Default(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		row.change(&after.Spec)
		_, err := (&ControlPlane{}).ValidateCreate(t.Context(), after)
		want(t, row.name+", created", err, row.created)
		_, err = (&ControlPlane{}).ValidateUpdate(t.Context(), before, after)
		want(t, row.name+", updated", err, row.update)
	}
}
