package updates

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

// TestAnnotatedDrain: annotations say how nodes are drained, and what they cannot mean is an error that names the annotation.
func TestAnnotatedDrain(t *testing.T) {
	const policy, timeout = upgradev1.DrainPolicyAnnotation, upgradev1.DrainTimeoutAnnotation
	for _, test := range []struct {
		given   map[string]string
		policy  upgradev1.DrainPolicy
		seconds int32
		err     string
	}{
		{nil, "", 0, ""},
		{map[string]string{policy: "Never"}, upgradev1.DrainNever, 0, ""},
		{map[string]string{policy: "Required", timeout: "86400"}, upgradev1.DrainRequired, 86400, ""},
		{map[string]string{timeout: "1"}, "", 1, ""},
		{map[string]string{policy: "required"}, "", 0, policy + ` "required": must be Never, BestEffort or Required`},
		{map[string]string{timeout: ""}, "", 0, timeout + ` "": must be a number of seconds from 1 to 86400`},
		{map[string]string{timeout: "0"}, "", 0, timeout + ` "0"`},
		{map[string]string{timeout: "86401"}, "", 0, timeout + ` "86401"`},
		{map[string]string{timeout: "9999999999"}, "", 0, timeout + ` "9999999999"`},
		{map[string]string{timeout: "300s"}, "", 0, timeout + ` "300s"`},
	} {
		got, err := AnnotatedDrain(test.given)
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) || got.Policy != test.policy ||
			ptr.Deref(got.TimeoutSeconds, 0) != test.seconds {
			t.Errorf("%v: %+v, %v", test.given, got, err)
		}
	}
}

// TestDrainText: how nodes are drained is said in words.
func TestDrainText(t *testing.T) {
	for _, test := range []struct {
		drain upgradev1.DrainSpec
		only  bool
		want  string
	}{
		{upgradev1.DrainSpec{}, true, "Never: pods stay"},
		{upgradev1.DrainSpec{Policy: upgradev1.DrainBestEffort}, false,
			"BestEffort: pods are evicted for at most 300 s a node; a node whose pods have no room"},
		{upgradev1.DrainSpec{Policy: upgradev1.DrainRequired, TimeoutSeconds: ptr.To[int32](60)}, false,
			"Required: pods are evicted for at most 60 s a node, which waits"},
		{upgradev1.DrainSpec{Policy: upgradev1.DrainRequired}, true, "Required: the node is not drained, as it is the only one"},
	} {
		if got := DrainText(test.drain, test.only); !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: %s", test.drain, got)
		}
	}
}

// TestIsDrainedOtherwise: only an upgrade that Quorate created, and that failed before its node was changed, makes room for another drain.
func TestIsDrainedOtherwise(t *testing.T) {
	required := upgradev1.DrainSpec{Policy: upgradev1.DrainRequired}
	failed := nodeOf("m1", upgradev1.Failed)
	failed.Spec.Drain = required
	byHand, swapped, running := *failed.DeepCopy(), *failed.DeepCopy(), nodeOf("m1", upgradev1.Running)
	byHand.Labels, running.Spec.Drain = nil, required
	swapped.Status.Conditions = append(swapped.Status.Conditions, metav1.Condition{Type: string(steps.Swap), Reason: upgradev1.Done})
	for name, test := range map[string]struct {
		u      upgradev1.NodeUpgrade
		wanted upgradev1.DrainSpec
		want   bool
	}{
		"another policy":       {failed, upgradev1.DrainSpec{Policy: upgradev1.DrainBestEffort}, true},
		"the default":          {failed, upgradev1.DrainSpec{}, true},
		"another time":         {failed, upgradev1.DrainSpec{Policy: upgradev1.DrainRequired, TimeoutSeconds: ptr.To[int32](600)}, true},
		"the same":             {failed, required, false},
		"the same, said whole": {failed, upgradev1.DrainSpec{Policy: upgradev1.DrainRequired, TimeoutSeconds: ptr.To[int32](300)}, false},
		"by hand":              {byHand, upgradev1.DrainSpec{}, false},
		"after the swap":       {swapped, upgradev1.DrainSpec{}, false},
		"under way":            {running, upgradev1.DrainSpec{}, false},
	} {
		if got := IsDrainedOtherwise(&test.u, test.wanted); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
