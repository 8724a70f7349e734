package quorum

import "testing"

// voters reads "a b- c": names, those that are not healthy with a minus.
func voters(names ...string) []Voter {
	var v []Voter
	for _, n := range names {
		healthy := n[len(n)-1] != '-'
		if !healthy {
			n = n[:len(n)-1]
		}
		v = append(v, Voter{ID: n, Healthy: healthy})
	}
	return v
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		voters                   []Voter
		majority, healthy, spare int
		has                      bool
	}{
		{voters(), 1, 0, -1, false},
		{voters("a"), 1, 1, 0, true},
		{voters("a-"), 1, 0, -1, false},
		{voters("a", "b"), 2, 2, 0, true},
		{voters("a", "b-"), 2, 1, -1, false},
		{voters("a", "b", "c"), 2, 3, 1, true},
		{voters("a", "b-", "c"), 2, 2, 0, true},
		{voters("a-", "b-", "c"), 2, 1, -1, false},
		{voters("a", "b", "c-", "d-"), 3, 2, -1, false},
		{voters("a", "b", "c", "d-"), 3, 3, 0, true},
		{voters("a", "b", "c", "d-", "e-"), 3, 3, 0, true},
		{voters("a", "b", "c", "d", "e", "f", "g"), 4, 7, 3, true},
	} {
		if got := Majority(len(c.voters)); got != c.majority {
			t.Errorf("Majority(%d) = %d, want %d", len(c.voters), got, c.majority)
		}
		if got := Healthy(c.voters); got != c.healthy {
			t.Errorf("Healthy(%v) = %d, want %d", c.voters, got, c.healthy)
		}
		if got := Spare(c.voters); got != c.spare {
			t.Errorf("Spare(%v) = %d, want %d", c.voters, got, c.spare)
		}
		if got := Has(c.voters); got != c.has {
			t.Errorf("Has(%v) = %t, want %t", c.voters, got, c.has)
		}
	}
}

func TestWithout(t *testing.T) {
	all := voters("a", "b-", "c")
	rest := Without(all, "b")
	if len(rest) != 2 || rest[0].ID != "a" || rest[1].ID != "c" {
		t.Errorf("Without b: %v", rest)
	}
	if len(Without(all, "x")) != 3 {
		t.Errorf("Without one that is not there: %v", Without(all, "x"))
	}
	if rest[0].ID = "z"; all[0].ID != "a" {
		t.Errorf("the argument was changed: %v", all)
	}
}
