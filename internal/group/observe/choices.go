package observe

import (
	"maps"
	"slices"
	"strings"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// addChoices adds what a person decided. A decision of which admission did not record who took it counts for nothing, and neither does one
// that is too many or too long.
func (t wants) addChoices() {
	annotations := t.Object.GetAnnotations()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		digest, is := strings.CutPrefix(name, controlplanev1.DecisionPrefix)
		value := annotations[name]
		if !is || annotations[controlplanev1.DecidedByPrefix+digest] == "" || len(value) > controlplanev1.MaxDecisionLength ||
			len(t.Facts.Choices) == controlplanev1.MaxDecisions {
			continue
		}
		t.Facts.Choices = append(t.Facts.Choices, ChoiceOf(digest, value))
	}
}

// ChoiceOf reads a decision from its annotation: the choice, its target, and how people call that.
func ChoiceOf(digest, value string) plan.Choice {
	kind, rest, _ := strings.Cut(value, " ")
	target, _, _ := strings.Cut(rest, " ")
	return plan.Choice{Kind: plan.ChoiceKind(kind), Target: target, Digest: digest}
}

// DecisionAnnotation is the annotation by which a person takes what is offered.
func DecisionAnnotation(f plan.Offer) (name, value string) {
	words := []string{string(f.Choice.Kind)}
	for _, word := range []string{f.Choice.Target, f.Name} {
		if word != "" {
			words = append(words, word)
		}
	}
	return controlplanev1.DecisionPrefix + f.Choice.Digest, Cut(strings.Join(words, " "), controlplanev1.MaxDecisionLength)
}
