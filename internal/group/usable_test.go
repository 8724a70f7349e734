package group

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestResurvey: the next look comes when a survey that something has overtaken is to be made again.
func TestResurvey(t *testing.T) {
	turn := turnOf(&Controller{}, &observe.View{})
	turn.Resurvey = 40 * time.Millisecond
	turn.Facts.Group.Initialized = true
	if got := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Wait}}); got != 40*time.Millisecond {
		t.Errorf("the next look comes after %s, want 40ms", got)
	}
	turn.Resurvey = 0
	if got := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Wait}}); got < observe.SoonBusy {
		t.Errorf("the next look comes after %s, want %s at least", got, observe.SoonBusy)
	}
}
