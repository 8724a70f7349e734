package embed

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/feature"
)

// TestParseFeatureGates: names are held against what Cluster API knows; errors name what is valid.
func TestParseFeatureGates(t *testing.T) {
	const valid = "must be KubeadmBootstrapFormatIgnition, MachineSetPreflightChecks, MachineTaintPropagation"
	for text, want := range map[string]string{
		"":                             "",
		"MachineTaintPropagation=true": "MachineTaintPropagation=true",
		" MachineTaintPropagation=1, MachineSetPreflightChecks=false,": "MachineSetPreflightChecks=false,MachineTaintPropagation=true",
		"MachineTaintPropagation=true,MachineTaintPropagation=true":    "MachineTaintPropagation=true",
		"MachineTaintPropagation=true,MachineTaintPropagation=false":   `error: "MachineTaintPropagation": must be true or false, not both`,
		"MachineTaintPropagation": `error: "MachineTaintPropagation": must be ` +
			`MachineTaintPropagation=true or MachineTaintPropagation=false`,
		"MachineTaintPropagation=yes": `error: "MachineTaintPropagation=yes": must be MachineTaintPropagation=true or ` +
			`MachineTaintPropagation=false`,
		"MachineTaintpropagation=true": `error: "MachineTaintpropagation": ` + valid,
		"=true":                        `error: "": ` + valid,
		"AllAlpha=true":                `error: "AllAlpha": ` + valid,
		"MachinePool=true":             `error: "MachinePool": it is always false here`,
		"RuntimeSDK=true":              `error: "RuntimeSDK": QUORATE_RUNTIME_EXTENSIONS=true`,
	} {
		gates, err := ParseFeatureGates(text)
		got := ShowFeatureGates(gates)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && (!strings.HasPrefix(want, "error: ") || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestFixedGates: all that are fixed exist.
func TestFixedGates(t *testing.T) {
	known := feature.MutableGates.GetAll()
	for _, gate := range slices.Sorted(maps.Keys(fixedGates)) {
		if _, is := known[gate]; !is {
			t.Errorf("Cluster API has no gate %s", gate)
		}
	}
}

// TestGatesOfEnvironment: gates are kept for the next start, which changes them only when it is asked to; a daemon with others is replaced.
func TestGatesOfEnvironment(t *testing.T) {
	t.Setenv("QUORATE_CACHE", t.TempDir())
	e := Environment{Cache: "/cache"}
	on := map[string]bool{"MachineTaintPropagation": true}
	for _, step := range []struct {
		asked map[string]bool
		want  string
	}{
		{nil, ""}, {on, "MachineTaintPropagation=true"}, {nil, "MachineTaintPropagation=true"}, {map[string]bool{}, ""},
	} {
		before := status{Ready: true, FeatureGates: maps.Clone(e.FeatureGates)}
		same := ShowFeatureGates(e.FeatureGates) == step.want
		merged, err := e.merge(Options{FeatureGates: step.asked})
		if err != nil {
			t.Fatal(err)
		}
		state := t.TempDir()
		if err := merged.Save(state); err != nil {
			t.Fatal(err)
		}
		if e, err = Load(state); err != nil {
			t.Fatal(err)
		}
		if got := ShowFeatureGates(e.FeatureGates); got != step.want {
			t.Errorf("asked for %v: %q, want %q", step.asked, got, step.want)
		}
		if before.fits(e) != same {
			t.Errorf("asked for %v: the daemon stays: %t, want %t", step.asked, !same, same)
		}
		if got := options(e, nil).Embedded.FeatureGates; !maps.Equal(got, e.FeatureGates) {
			t.Errorf("the controllers are started with %v, want %v", got, e.FeatureGates)
		}
	}
}
