package observe

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
)

// AddonsSeen are the states of kubeadm's add-ons in a cluster, as they were read last.
type AddonsSeen struct {
	// Read is when; zero: never.
	Read   time.Time
	Health map[string]kubeadm.AddonHealth
}

// Fail reports whether an add-on does not work, or is not known to.
func (a AddonsSeen) Fail() bool {
	for _, h := range a.Health {
		if h.State == kubeadm.AddonFails || h.State == kubeadm.AddonUnknown {
			return true
		}
	}
	return false
}

// Reported reports whether there is an add-on whose state is reported.
func (a AddonsSeen) Reported() bool {
	for _, h := range a.Health {
		if h.State != kubeadm.AddonNotReported {
			return true
		}
	}
	return false
}

// AddonsLeft reports whether it was seen that others keep all add-ons, or that there are none.
func (t *View) AddonsLeft() bool {
	seen := t.Memory.Addons
	return !seen.Read.IsZero() && !seen.Reported()
}
