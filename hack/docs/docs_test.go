package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli/advice"
)

const root = "../.."

// TestAdvice: each reason has an advice, and each advice a reason.
func TestAdvice(t *testing.T) {
	sections, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := advice.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, gap := range gaps(sections, all) {
		t.Error(gap)
	}
}

// TestGaps: what is missing on either side is told.
func TestGaps(t *testing.T) {
	sections := []section{{id: "one", reasons: []reason{{"Good", "well"}, {"Bare", ""}, {"Lone", "alone"}}}}
	got := gaps(sections, advice.All{"one": {"Good": {Do: "nothing"}, "Bare": {Do: "look"}, "Gone": {Do: "look"}}, "two": nil})
	want := []string{
		"one: Gone has an advice, and nothing gives that reason", "one: Lone has no advice",
		"one: nothing says what Bare means", "two: there is no such section",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPages: the pages are what the sources make.
func TestPages(t *testing.T) {
	all, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		got, err := os.ReadFile(filepath.Join(root, p.path))
		if err != nil {
			t.Error(err)
		} else if string(got) != p.text {
			t.Errorf("%s is not what the sources make: run go run ./hack/docs", p.path)
		}
	}
}
