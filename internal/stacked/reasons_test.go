package stacked

import (
	"errors"
	"testing"
)

// TestUpstreamsReasons: alerts on the words of upstream's controller go on working.
func TestUpstreamsReasons(t *testing.T) {
	s := fine()
	s.kcp.Spec.Replicas = nil
	for _, kind := range []string{"ScalingUp", "ScalingDown"} {
		if got := told(s.renewed().groupConditions(waiting, nil), kind); got != "Unknown WaitingForReplicasSet: spec.replicas is not set" {
			t.Errorf("%s is %s", kind, got)
		}
	}
	s = fine()
	s.kcp.DeletionTimestamp = &longAgo
	if got := told(s.renewed().groupConditions(waiting, errors.New("refused")), "Deleting"); got != "True InternalError: the reason to wait; the last try failed: refused" {
		t.Errorf("Deleting is %s", got)
	}
}
