package observe

import (
	"testing"
	"time"
)

// TestUsable: how long a survey is believed, and when the next is due where something has changed since.
func TestUsable(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name      string
		surveys   Surveys
		age       time.Duration
		around    string
		usable    bool
		overtaken time.Duration
	}{
		{name: "new", age: 10 * time.Millisecond, around: "as asked", usable: true},
		{name: "old, something is under way", age: SurveyAge, around: "as asked"},
		{name: "old, nothing is under way", surveys: Surveys{Rest: SurveyAgeSteady}, age: time.Minute, around: "as asked", usable: true},
		{name: "new, something has changed", age: 50 * time.Millisecond, around: "changed", usable: true,
			overtaken: SurveyAgeOvertaken - 50*time.Millisecond},
		{name: "something has changed a moment ago", age: SurveyAgeOvertaken, around: "changed", overtaken: SoonAfterAct},
		{name: "at rest, something has changed", surveys: Surveys{Rest: SurveyAgeSteady}, age: time.Minute, around: "changed",
			overtaken: SoonAfterAct},
		{name: "nobody answered", surveys: Surveys{unanswered: 3}, age: 2 * time.Second, around: "as asked", usable: true},
		{name: "nobody answered, something has changed", surveys: Surveys{unanswered: 3}, age: 2 * time.Second, around: "changed",
			overtaken: SoonAfterAct},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.surveys
			s.At, s.around = now.Add(-test.age), "as asked"
			if got := s.Usable(test.around, now); got != test.usable {
				t.Errorf("usable: %t, want %t", got, test.usable)
			}
			if got := s.Overtaken(test.around, now); got != test.overtaken {
				t.Errorf("overtaken: %s, want %s", got, test.overtaken)
			}
		})
	}
}
