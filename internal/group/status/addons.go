package status

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
	"github.com/quorate/quorate/internal/group/observe"
)

// addonsBelieved is how long states that were read are reported while they cannot be read again.
const addonsBelieved = 2 * observe.SlowTime

// addonsCondition returns the condition AddonsHealthy; none where nothing was read yet, and where others keep the add-ons.
func (t Report) addonsCondition() []metav1.Condition {
	kind := controlplanev1.AddonsHealthyCondition
	o, seen := t.Facts, t.Memory.Addons
	tell := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{observe.Condition(kind, status, reason, message)}
	}
	switch {
	case !o.Group.Initialized, t.AddonsLeft(), !seen.Reported() && !conditions.Has(t.Object, kind):
		return nil
	case !o.Cluster.Reachable:
		return tell(metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsConnectionDownReason, o.Cluster.Unreachable)
	case !seen.Reported():
		return nil // a process that has just started looks next
	case o.Now.Sub(seen.Read) > addonsBelieved:
		return tell(metav1.ConditionUnknown, upstream.KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason,
			"Not read since "+seen.Read.UTC().Format(time.RFC3339))
	}
	var found observe.Ailments
	for _, name := range slices.Sorted(maps.Keys(seen.Health)) {
		switch h := seen.Health[name]; h.State {
		case kubeadm.AddonFails:
			found.Add(plan.Unhealthy, "%s: %s", name, h.Message)
		case kubeadm.AddonUnknown:
			found.Add(plan.Unknown, "%s: %s", name, h.Message)
		}
	}
	return []metav1.Condition{found.Condition(kind)}
}

// addonsWork returns whether each add-on works of which that is known now.
func (t Report) addonsWork() map[string]bool {
	seen := t.Memory.Addons
	if !t.Facts.Cluster.Reachable || t.Facts.Now.Sub(seen.Read) > addonsBelieved {
		return nil
	}
	work := map[string]bool{}
	for name, h := range seen.Health {
		if h.State == kubeadm.AddonWorks || h.State == kubeadm.AddonFails {
			work[name] = h.State == kubeadm.AddonWorks
		}
	}
	return work
}
