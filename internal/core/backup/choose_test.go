package backup

import (
	"errors"
	"strings"
	"testing"
)

// TestChoose: from which member a backup is taken, and when from none.
func TestChoose(t *testing.T) {
	leader := Candidate{ID: 1, Name: "a", Leader: true, Healthy: true, Index: 5000, Applied: 5000}
	near := Candidate{ID: 2, Name: "b", Healthy: true, Index: 4990, Applied: 4990}
	far := Candidate{ID: 3, Name: "c", Healthy: true, Index: 5000, Applied: 3000}
	ill := Candidate{ID: 4, Name: "d", Index: 9000, Applied: 9000}
	learner := Candidate{ID: 5, Name: "e", Learner: true, Healthy: true}
	same := Candidate{ID: 9, Name: "s", Healthy: true, Index: 4990, Applied: 4990}
	for name, test := range map[string]struct {
		members []Candidate
		want    string // the name, or the begin of the error
	}{
		"nothing known":                {nil, "no etcd member"},
		"one":                          {[]Candidate{leader}, "a"},
		"one that is ill":              {[]Candidate{ill}, "none of 1"},
		"a follower":                   {[]Candidate{leader, near, far}, "b"},
		"the first of two":             {[]Candidate{same, leader, near}, "b"},
		"none is up to date":           {[]Candidate{leader, far, ill}, "none of 3"},
		"only the leader":              {[]Candidate{leader, ill}, "none of 2"},
		"the ill one does not measure": {[]Candidate{leader, near, ill}, "b"},
		"a learner":                    {[]Candidate{leader, near, learner}, "etcd member e is joining"},
		"one that never started":       {[]Candidate{leader, near, {ID: 255}}, "etcd member ff is joining"},
	} {
		got, err := Choose(test.members)
		said := got.Name
		if err != nil {
			said = err.Error()
		}
		if errors.Is(err, ErrJoining) != strings.Contains(test.want, "is joining") {
			t.Errorf("%s: that a member joins is %v", name, err)
		}
		if said != test.want && (err == nil || !strings.HasPrefix(said, test.want)) {
			t.Errorf("%s: %q, want %q", name, said, test.want)
		}
	}
}
