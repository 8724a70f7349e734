package gauge

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestRegister: the labels are always the same, and a second registration is none.
func TestRegister(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := Register(registry); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "quorate_build_info" || families[0].Metric[0].GetGauge().GetValue() != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	got := map[string]string{}
	for _, l := range families[0].Metric[0].Label {
		got[l.GetName()] = l.GetValue()
	}
	_, revision := got["revision"]
	_, date := got["date"]
	if len(got) != 4 || !revision || !date || got["version"] == "" || got["goversion"] != runtime.Version() {
		t.Errorf("%v", got)
	}
}
