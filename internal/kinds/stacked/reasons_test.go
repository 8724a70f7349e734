package stacked

import (
	"errors"
	"testing"
)

// TestUpstreamsReasons: alerts on the words of upstream's controller go on working.
func TestUpstreamsReasons(t *testing.T) {
	s := fine()
	of(s.View).Spec.Replicas = nil
	for _, kind := range []string{"ScalingUp", "ScalingDown"} {
		if got := told(reported(renewed(s)).Conditions(waiting, nil), kind); got != "Unknown WaitingForReplicasSet: spec.replicas is not set" {
			t.Errorf("%s is %s", kind, got)
		}
	}
	s = fine()
	of(s.View).DeletionTimestamp = &longAgo
	if got := told(reported(renewed(s)).Conditions(waiting, errors.New("refused")), "Deleting"); got != "True InternalError: the reason to "+
		"wait; the last try failed: refused" {
		t.Errorf("Deleting is %s", got)
	}
}
