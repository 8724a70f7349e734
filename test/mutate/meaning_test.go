package main

import "testing"

// TestMeaningsFollowTheCode: the text that each sabotage of meaning changes is there, exactly once.
func TestMeaningsFollowTheCode(t *testing.T) {
	all, err := sabotageMeanings("../..")
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSource("../../internal/plan")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		for _, c := range all[i].edits {
			if _, err := s.find(c); err != nil {
				t.Errorf("%s: %v", &all[i], err)
			}
		}
	}
}
