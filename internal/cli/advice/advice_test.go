package advice

import (
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestWaits: each reason for which a rule waits has a meaning, an advice and what ends it.
func TestWaits(t *testing.T) {
	if _, err := Read(); err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Rules() {
		for _, g := range r.Gives {
			if g.Verb != plan.Wait || g.Word == plan.ChoreReason {
				continue
			}
			a, found := OfWait(g.Word)
			if !found || a.Do == "" || a.Ends.Text() == "" || Meaning(r.Name, g.Word) == "" {
				t.Errorf("%s: %s: %+v, means %q", r.Name, g.Word, a, Meaning(r.Name, g.Word))
			}
		}
	}
	if _, found := OfWait("Nonsense"); found || Meaning("hold", "Nonsense") != "" {
		t.Error("a reason that nobody gives has an advice")
	}
}

// TestOnlyByPerson: what ends by itself as well needs no person.
func TestOnlyByPerson(t *testing.T) {
	for reason, want := range map[string]bool{"ApprovalRequired": true, "EvenReplicas": true, "Joining": false, "EtcdUnknown": false} {
		if a, found := OfWait(reason); !found || a.Ends.OnlyByPerson() != want {
			t.Errorf("%s: only a person ends it: %v", reason, !want)
		}
	}
}
