package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWrite: a table takes the place of that of another patch of the minor version, and of no other.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	for _, v := range []string{"v1.3.1", "v1.36.3", "v1.36.4", "v1.36.10"} {
		if err := write(folder, v, v); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"v1.3.1.txt", "v1.36.10.txt"}) {
		t.Errorf("tables %q, %v", names, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "v1.36.10.txt")); err != nil || string(text) != "v1.36.10" {
		t.Errorf("wrote %q, %v", text, err)
	}
}
