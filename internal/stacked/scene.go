package stacked

import (
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/workload"
)

// scene is what one turn saw of a control plane.
type scene struct {
	*group.Observation
	kcp *controlplanev1.KubeadmControlPlane
	// lacking are what the cluster's certificates lack, in sentences; empty: nothing.
	lacking []string
	// began is when this process first looked at the control plane.
	began time.Time
}

// kubeadmConfig is the record of what a machine was made from; nil: not known.
func kubeadmConfig(m *group.Machine) *bootstrapv1.KubeadmConfig {
	config, _ := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
	return config
}

// partsOf are the objects that a machine consists of.
func partsOf(m *group.Machine) drift.Machine {
	return drift.Machine{Machine: m.Machine, Config: kubeadmConfig(m), Infrastructure: m.Infrastructure}
}

// addWorkload adds what is known from the workload cluster: Nodes and static pods, and what is wanted beside it.
func (s *scene) addWorkload(view workload.View) {
	s.AddWorkload(view)
	s.addWants(s.Facts.Now)
}
