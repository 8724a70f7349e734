package observe

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// IsHeld reports whether the bootstrap of a machine is held back: its object is paused by us, and no data was made of it.
func IsHeld(m *Machine) bool {
	return m.Bootstrap != nil && m.Bootstrap.GetAnnotations()[clusterv1.PausedAnnotation] == controlplanev1.BootstrapHeld &&
		m.Spec.Bootstrap.DataSecretName == nil
}

// BootstrapStarted is when the bootstrap of a machine was started that was made ahead; zero: it was not, or that cannot be read.
func BootstrapStarted(m *clusterv1.Machine) time.Time {
	at, _ := time.Parse(time.RFC3339, m.Annotations[controlplanev1.BootstrapStartedAnnotation])
	return at
}
