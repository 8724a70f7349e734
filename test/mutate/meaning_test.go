package main

import (
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestMeaningsFollowTheCode: the text that each sabotage of meaning changes is there, exactly once.
func TestMeaningsFollowTheCode(t *testing.T) {
	all := sabotageMeanings()
	for _, k := range keys {
		s, err := readSource("../../internal/core/" + k.pkg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			for _, c := range k.edits(&all[i]) {
				if _, err := s.find(c); err != nil {
					t.Errorf("%s: package %s: %v", &all[i], k.pkg, err)
				}
			}
		}
	}
}

// TestSwaps: each pair of neighbours is swapped under its own name, and what excuses a swap names such a pair.
func TestSwaps(t *testing.T) {
	rules, all, known := plan.Rules(), swaps(), map[string]bool{}
	if len(all) != len(rules)-1 {
		t.Fatalf("%d swaps of %d rules", len(all), len(rules))
	}
	for i, m := range all {
		pair := rules[m.swap].Name + " before " + rules[m.swap-1].Name
		if known[pair] = true; m.swap != i+1 || m.says != "order: "+pair {
			t.Errorf("%q swaps %s", m.says, pair)
		}
	}
	for _, excuses := range []map[string]string{likeAll, likeRows} {
		for pair := range excuses {
			if !known[pair] {
				t.Errorf("%q is no pair of neighbours", pair)
			}
		}
	}
}

// TestMeaningsCompile: both keys compile with all sabotages of meaning in them.
func TestMeaningsCompile(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := sabotageMeanings()
	work, overlay := t.TempDir(), map[string]string{}
	if err := overlayMeanings(root, work, all, overlay); err != nil {
		t.Fatal(err)
	}
	c := compiler{root: root, work: work, kind: "meaning", overlay: overlay}
	if err := c.tests("plan", "check"); err != nil {
		t.Error(err)
	}
}
