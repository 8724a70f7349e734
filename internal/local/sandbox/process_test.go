package sandbox

import "testing"

// TestNoProcessHasEnded: a machine that was powered off has no process, and waiting for its end ends at once.
func TestNoProcessHasEnded(t *testing.T) {
	if err := (process{}).await(t.Context()); err != nil {
		t.Error(err)
	}
}
