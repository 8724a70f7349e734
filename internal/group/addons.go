package group

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
)

// AddonsSeen are the states of kubeadm's add-ons in a cluster, as they were read last.
type AddonsSeen struct {
	// Read is when; zero: never.
	Read   time.Time
	health map[string]kubeadm.AddonHealth
}

// addonsBelieved is how long states that were read are reported while they cannot be read again.
const addonsBelieved = 2 * SlowTime

// fail reports whether an add-on does not work, or is not known to.
func (a AddonsSeen) fail() bool {
	for _, h := range a.health {
		if h.State == kubeadm.AddonFails || h.State == kubeadm.AddonUnknown {
			return true
		}
	}
	return false
}

// reported reports whether there is an add-on whose state is reported.
func (a AddonsSeen) reported() bool {
	for _, h := range a.health {
		if h.State != kubeadm.AddonNotReported {
			return true
		}
	}
	return false
}

// addonsLeft reports whether it was seen that others keep all add-ons, or that there are none.
func (t *View) addonsLeft() bool {
	seen := t.Memory.Addons
	return !seen.Read.IsZero() && !seen.reported()
}

// addonsCondition returns the condition AddonsHealthy; none where nothing was read yet, and where others keep the add-ons.
func (t Report) addonsCondition() []metav1.Condition {
	kind := controlplanev1.AddonsHealthyCondition
	o, seen := t.Facts, t.Memory.Addons
	tell := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{Condition(kind, status, reason, message)}
	}
	switch {
	case !o.Group.Initialized, t.addonsLeft(), !seen.reported() && !conditions.Has(t.Object, kind):
		return nil
	case !o.Cluster.Reachable:
		return tell(metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsConnectionDownReason, o.Cluster.Unreachable)
	case !seen.reported():
		return nil // a process that has just started looks next
	case o.Now.Sub(seen.Read) > addonsBelieved:
		return tell(metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason,
			"Not read since "+seen.Read.UTC().Format(time.RFC3339))
	}
	var found ailments
	for _, name := range slices.Sorted(maps.Keys(seen.health)) {
		switch h := seen.health[name]; h.State {
		case kubeadm.AddonFails:
			found.add(plan.Unhealthy, "%s: %s", name, h.Message)
		case kubeadm.AddonUnknown:
			found.add(plan.Unknown, "%s: %s", name, h.Message)
		}
	}
	return []metav1.Condition{found.condition(kind)}
}

// addonsWork returns whether each add-on works of which that is known now.
func (t Report) addonsWork() map[string]bool {
	seen := t.Memory.Addons
	if !t.Facts.Cluster.Reachable || t.Facts.Now.Sub(seen.Read) > addonsBelieved {
		return nil
	}
	work := map[string]bool{}
	for name, h := range seen.health {
		if h.State == kubeadm.AddonWorks || h.State == kubeadm.AddonFails {
			work[name] = h.State == kubeadm.AddonWorks
		}
	}
	return work
}
