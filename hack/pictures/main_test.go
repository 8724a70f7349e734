package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPictures: the pictures are well-formed, and those that are committed were drawn from the files as they are.
func TestPictures(t *testing.T) {
	all, err := pictures("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range all {
		if err := xml.Unmarshal([]byte(picture), &struct{}{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if committed, err := os.ReadFile(filepath.Join("../..", folder, name)); err != nil || string(committed) != picture {
			t.Errorf("%s is not what make pictures draws, %v", name, err)
		}
	}
}

// TestParseStory: spans follow one another without gaps, and what cannot be read is named.
func TestParseStory(t *testing.T) {
	const text = "About.\n\n 5m0s [1a^] * machines of spec 2 are wanted\n 5m1s [1a*^] Create cp-2 in b (RollingOut: x)\n 5m9s [1a*^ 2b~-] Wait (Joining: x)\n6m0s [2b^] Nothing (AsWanted: x)\n"
	s, err := parseStory(text)
	if err != nil || len(s.machines) != 2 || len(s.steps) != 1 || len(s.spans["cp-1"]) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	spans := s.spans["cp-1"]
	for i := range spans[1:] {
		if spans[i].to != spans[i+1].from {
			t.Errorf("%+v is followed by %+v", spans[i], spans[i+1])
		}
	}
	if last := spans[1]; last.phase != behind || !last.leads || last.to.String() != "6m0s" {
		t.Errorf("the end of cp-1 is %+v", last)
	}
	for wrong, want := range map[string]string{
		"About.\n\nnonsense": "line 3", "About.\n\n 1s [1a%] Wait (x: y)": `machine "1a%"`, "About.\n\n 1s [1a] Wait (x: y)": "no rollout",
	} {
		if _, err := parseStory(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", wrong, err, want)
		}
	}
}
