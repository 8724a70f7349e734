package group

import (
	"context"
	"errors"
	"strings"
	"testing"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/status"
)

// TestRefused: a decision that breaks an invariant is told and not carried out.
func TestRefused(t *testing.T) {
	wrong := plan.Decision{Step: plan.Step{Verb: plan.Delete, Machine: "m1"}, Rule: "scale down"}
	d := refused(context.Background(), plan.Observed{}, controlplanev1.PlanStatus{}, wrong, errors.New("invariant 4"))
	if again := refused(context.Background(), plan.Observed{}, status.PlanStatus(d, nil), wrong, errors.New("invariant 4")); again != d {
		t.Errorf("decided %+v at first, then %+v", d, again)
	}
	if d.Step.Acts() || d.Reason != CheckFailed || !strings.Contains(d.Message, "invariant 4") || !strings.Contains(d.Message, "Delete m1") {
		t.Errorf("decided %+v", d)
	}
}
