package observe

import (
	"fmt"
	"strings"
	"testing"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestAddChoices: decisions count whose taker admission recorded, no more and no longer ones than an object may have; what is written is
// read again.
func TestAddChoices(t *testing.T) {
	const by = "2026-11-27T17:03:12Z jane"
	read := func(annotations map[string]string) []plan.Choice {
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Annotations = annotations
		turn := &Observer{View: &View{Object: kcp}}
		wants{turn.View}.addChoices()
		return turn.Facts.Choices
	}
	offer := plan.Offer{Choice: plan.Choice{Kind: plan.RemoveVoter, Target: "77", Digest: "a1b2"}, Name: "demo-cp-9"}
	name, value := DecisionAnnotation(offer)
	if name != "decision.quorate.io/a1b2" || value != "remove-voter 77 demo-cp-9" {
		t.Errorf("written is %s: %s", name, value)
	}
	many := map[string]string{}
	for i := range controlplanev1.MaxDecisions + 3 {
		digest := fmt.Sprintf("%02d", i)
		many[controlplanev1.DecisionPrefix+digest], many[controlplanev1.DecidedByPrefix+digest] = value, by
	}
	for what, test := range map[string]struct {
		annotations map[string]string
		want        int
	}{
		"nothing":      {map[string]string{"a": "b"}, 0},
		"a decision":   {map[string]string{name: value, controlplanev1.DecidedByPrefix + "a1b2": by}, 1},
		"by nobody":    {map[string]string{name: value}, 0},
		"too long":     {map[string]string{name: strings.Repeat("x", 300), controlplanev1.DecidedByPrefix + "a1b2": by}, 0},
		"by for none":  {map[string]string{controlplanev1.DecidedByPrefix + "a1b2": by}, 0},
		"by of others": {map[string]string{name: value, controlplanev1.DecidedByPrefix + "b2": by}, 0},
		"too many":     {many, controlplanev1.MaxDecisions},
	} {
		got := read(test.annotations)
		if len(got) != test.want {
			t.Errorf("%s: read are %v, want %d", what, got, test.want)
		}
		if what == "a decision" && got[0] != offer.Choice {
			t.Errorf("read is %+v, want %+v", got[0], offer.Choice)
		}
	}
}
