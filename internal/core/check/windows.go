package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkOpen refuses what begins a rollout, or an update in place, outside of the windows of spec.approval.
func checkOpen(o plan.Observed, what string) error {
	if closed := o.Group.Window.Closed; closed != "" {
		return fmt.Errorf("%s, and none may begin now: %s", what, closed)
	}
	return nil
}
