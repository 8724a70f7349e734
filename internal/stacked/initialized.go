package stacked

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// recordedInitialized reports whether it is on record that a cluster was initialised: in the
// status, or where a move and a backup keep it.
func recordedInitialized(kcp *controlplanev1.KubeadmControlPlane) bool {
	_, recorded := kcp.Annotations[controlplanev1.InitializedAnnotation]
	return recorded || ptr.Deref(kcp.Status.Initialization.ControlPlaneInitialized, false)
}

// initializing reports whether it is proven that no machine of this very object had
// initialised a cluster when its first was made.
func initializing(kcp *controlplanev1.KubeadmControlPlane) bool {
	return kcp.UID != "" && kcp.Annotations[controlplanev1.InitializingAnnotation] == string(kcp.UID)
}

// foundInitialized finds again from the machines that a cluster was initialised: none is made
// to join before.
func (s *scene) foundInitialized() {
	group := &s.Facts.Group
	for _, m := range s.Machines {
		if config := kubeadmConfig(m); config != nil && config.Spec.JoinConfiguration.ControlPlane != nil && !config.Spec.InitConfiguration.IsDefined() {
			group.Initialized, group.New = true, false
		}
	}
}

// recordInitialized writes down, where a move and a backup keep it, that a cluster was initialised.
func (r *Reconciler) recordInitialized(ctx context.Context, s *scene, m *memory) error {
	if _, recorded := s.kcp.Annotations[controlplanev1.InitializedAnnotation]; recorded || !s.Facts.Group.Initialized || s.Facts.Group.Deleting {
		return nil
	}
	return r.annotate(ctx, s, m, map[string]string{controlplanev1.InitializedAnnotation: "true", controlplanev1.InitializingAnnotation: ""})
}

// buildable returns the control plane as machines of it can be made now: where its version is
// refused, with the newest that its machines have, so that a broken one can be replaced.
func (s *scene) buildable() *controlplanev1.KubeadmControlPlane {
	if refused := s.Facts.Want.Refused; refused.Reason == "" || !refused.Replaceable {
		return s.kcp
	}
	newest := newestVersion(s.Objects())
	if newest == "" {
		return s.kcp
	}
	kcp := s.kcp.DeepCopy()
	kcp.Spec.Version = newest
	return kcp
}

// newestVersion returns the newest version that any of the machines has; empty: none is known.
func newestVersion(machines []*clusterv1.Machine) string {
	if list := versions(machines); len(list) > 0 {
		return list[len(list)-1].Version
	}
	return ""
}
