package observe

import (
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	if got := Cut(strings.Repeat("\u00e4", 300), 512); len(got) > 512 || !strings.HasSuffix(got, "\u00e4...") {
		t.Errorf("cut to %d bytes, ending in %q", len(got), got[len(got)-8:])
	}
	if got := Cut("short", 512); got != "short" {
		t.Errorf("cut to %q", got)
	}
}
