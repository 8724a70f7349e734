package main

import (
	"path/filepath"
	"testing"
)

// TestMeaningsFollowTheCode: the text that each sabotage of meaning changes is there, exactly once.
func TestMeaningsFollowTheCode(t *testing.T) {
	all, err := sabotageMeanings("../..")
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSource("../../internal/core/plan")
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

// TestMeaningsCompile: the rules compile with all sabotages of meaning in them.
func TestMeaningsCompile(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := sabotageMeanings(root)
	if err != nil {
		t.Fatal(err)
	}
	work, overlay := t.TempDir(), map[string]string{}
	if err := overlayMeanings(filepath.Join(root, "internal/core/plan"), work, all, overlay); err != nil {
		t.Fatal(err)
	}
	c := compiler{root: root, work: work, kind: "meaning", overlay: overlay}
	if err := c.tests("plan"); err != nil {
		t.Error(err)
	}
}
