package up

import (
	"testing"

	"github.com/quorate/quorate/internal/local/embed"
)

// TestPlaneDetail: feature gates that were chosen, also before a restart, are shown with the management plane.
func TestPlaneDetail(t *testing.T) {
	state := t.TempDir()
	if got := planeDetail(state, "https://127.0.0.1:6443"); got != "https://127.0.0.1:6443" {
		t.Errorf("without an environment: %s", got)
	}
	e := embed.Environment{FeatureGates: map[string]bool{"MachineTaintPropagation": true}}
	if err := e.Save(state); err != nil {
		t.Fatal(err)
	}
	if got, want := planeDetail(state, "https://127.0.0.1:6443"),
		"https://127.0.0.1:6443, feature gates MachineTaintPropagation=true"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
