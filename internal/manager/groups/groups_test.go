package groups

import "testing"

// TestAtOnce: the controller of each kind lets as many turns work at once as is said.
func TestAtOnce(t *testing.T) {
	for kind := range kinds {
		if got := cap(controllerOf(kind, nil, nil, nil, Options{AtOnce: 3}).Slots); got != 3 {
			t.Errorf("%s: %d turns at once, want 3", kind, got)
		}
	}
}
