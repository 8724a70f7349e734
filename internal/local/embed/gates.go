package embed

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
)

// fixedGates are the feature gates of Cluster API that the management plane chooses itself, each with what to do instead.
var fixedGates = map[featuregate.Feature]string{
	feature.ClusterTopology: "it is always true here",
	feature.MachinePool:     "it is always false here: local machines have no pools",
	feature.PriorityQueue:   "it is always true here",
	feature.RuntimeSDK:      runtimeExtensionsVariable + "=true or =false in the environment of `quorate up` sets it",
	feature.InPlaceUpdates:  runtimeExtensionsVariable + "=true or =false in the environment of `quorate up` sets it",
}

// FeatureGates returns the names of the feature gates of Cluster API that ParseFeatureGates accepts, sorted. Each can be set by itself.
func FeatureGates() []string {
	var names []string
	for gate := range feature.MutableGates.GetAll() {
		all := gate == "AllAlpha" || gate == "AllBeta" // these would set the fixed ones too
		if _, fixed := fixedGates[gate]; !fixed && !all {
			names = append(names, string(gate))
		}
	}
	slices.Sort(names)
	return names
}

// ParseFeatureGates reads feature gates of Cluster API: NAME=true or NAME=false, separated by commas. An empty text sets
// none, and returns an empty map. An error begins with the part that is wrong, in quotes.
func ParseFeatureGates(text string) (map[string]bool, error) {
	gates := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if why, fixed := fixedGates[featuregate.Feature(name)]; fixed {
			return nil, fmt.Errorf("%q: %s", name, why)
		}
		if !slices.Contains(FeatureGates(), name) {
			return nil, fmt.Errorf("%q: must be %s", name, strings.Join(FeatureGates(), ", "))
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%q: must be %s=true or %s=false", part, name, name)
		}
		if before, twice := gates[name]; twice && before != on {
			return nil, fmt.Errorf("%q: must be true or false, not both", name)
		}
		gates[name] = on
	}
	return gates, nil
}

// ShowFeatureGates returns feature gates as ParseFeatureGates reads them, sorted; empty: none is set.
func ShowFeatureGates(gates map[string]bool) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(all, ",")
}
