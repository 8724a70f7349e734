package updates

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/utils/ptr"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// longestDrain is the most seconds that draining a node may take.
const longestDrain = 86400

// AnnotatedDrain reads how the annotations of a MachineDeployment, or of a Machine, want nodes to be drained.
func AnnotatedDrain(annotations map[string]string) (upgradev1.DrainSpec, error) {
	drain := upgradev1.DrainSpec{Policy: upgradev1.DrainPolicy(annotations[upgradev1.DrainPolicyAnnotation])}
	switch drain.Policy {
	case "", upgradev1.DrainNever, upgradev1.DrainBestEffort, upgradev1.DrainRequired:
	default:
		return upgradev1.DrainSpec{}, fmt.Errorf("invalid annotation %s %q: must be %s, %s or %s", upgradev1.DrainPolicyAnnotation, drain.Policy,
			upgradev1.DrainNever, upgradev1.DrainBestEffort, upgradev1.DrainRequired)
	}
	given, has := annotations[upgradev1.DrainTimeoutAnnotation]
	if !has {
		return drain, nil
	}
	seconds, err := strconv.ParseInt(given, 10, 32)
	if err != nil || seconds < 1 || seconds > longestDrain {
		return upgradev1.DrainSpec{}, fmt.Errorf("invalid annotation %s %q: must be a number of seconds from 1 to %d",
			upgradev1.DrainTimeoutAnnotation, given, longestDrain)
	}
	drain.TimeoutSeconds = ptr.To(int32(seconds))
	return drain, nil
}

// IsDrainedOtherwise reports whether a NodeUpgrade that Quorate created failed before its node was changed, and wants another drain than
// the one that is wanted now: another NodeUpgrade takes its place.
func IsDrainedOtherwise(u *upgradev1.NodeUpgrade, wanted upgradev1.DrainSpec) bool {
	if _, ours := u.Labels[upgradev1.WantedLabel]; !ours || upgradepod.StateOf(u) != upgradepod.Failed || Changed(u) {
		return false
	}
	now := u.DeepCopy()
	now.Spec.Drain = wanted
	policy, timeout := upgradepod.Drain(u)
	nowPolicy, nowTimeout := upgradepod.Drain(now)
	policy, nowPolicy = cmp.Or(policy, steps.DrainNever), cmp.Or(nowPolicy, steps.DrainNever)
	return policy != nowPolicy || policy != steps.DrainNever && timeout != nowTimeout
}

// DrainText says how nodes of a control plane are drained. only: the cluster has no other node.
func DrainText(drain upgradev1.DrainSpec, only bool) string {
	policy, seconds := cmp.Or(drain.Policy, upgradev1.DrainNever), ptr.Deref(drain.TimeoutSeconds, steps.DefaultDrainTimeout)
	switch {
	case policy == upgradev1.DrainNever:
		return "Never: pods stay on their nodes"
	case only:
		return string(policy) + ": the node is not drained, as it is the only one of the cluster"
	case policy == upgradev1.DrainRequired:
		return fmt.Sprintf("Required: pods are evicted for at most %d s a node, which waits as long for room on other nodes", seconds)
	}
	return fmt.Sprintf("BestEffort: pods are evicted for at most %d s a node; a node whose pods have no room on other nodes is not drained",
		seconds)
}
