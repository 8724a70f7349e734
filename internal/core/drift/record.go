package drift

import (
	"encoding/json"
	"maps"
	"slices"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// RecordAnnotation is where Cluster API up to v1.11 kept the
// ClusterConfiguration that a Machine was made from, as JSON of v1beta1.
const RecordAnnotation = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"

// The parts of a kubeadmConfigSpec that are not simply compared with themselves.
const (
	clusterPart = "clusterConfiguration"
	initPart    = "initConfiguration"
	joinPart    = "joinConfiguration"
)

// spec is where all of this stands in a KubeadmControlPlane.
var spec = path{field: "spec.kubeadmConfigSpec", pattern: "kubeadmConfigSpec"}

// ofConfig compares what kubeadm and cloud-init were told.
func ofConfig(kcp *controlplanev1.KubeadmControlPlane, m Machine) []Difference {
	want := tree(kcp.Spec.KubeadmConfigSpec)
	var found []Difference
	if record, ok := clusterConfiguration(m); ok {
		found = compare(spec.member(clusterPart), tree(record), want[clusterPart])
	}
	if m.Config == nil {
		return found
	}
	was := tree(m.Config.Spec)
	found = append(found, judgeArgs(ofNode(was, want), &kcp.Spec.KubeadmConfigSpec)...)
	for _, part := range []string{clusterPart, initPart, joinPart} {
		delete(was, part)
		delete(want, part)
	}
	return append(found, judgeFiles(compare(spec, was, want), m.Config.Spec.Files, &kcp.Spec.KubeadmConfigSpec)...)
}

// clusterConfiguration returns the ClusterConfiguration that a machine was made
// from, and whether that is known.
//
// The machine's KubeadmConfig is the record. A KubeadmConfig that has none may
// be one made by hand, for a machine that joined and needed none; then the
// annotation of older versions counts. Without that, it means an empty
// ClusterConfiguration only if the infrastructure was cloned from a template:
// this is done by control planes, and they copy all that they have.
func clusterConfiguration(m Machine) (bootstrapv1.ClusterConfiguration, bool) {
	var config bootstrapv1.ClusterConfiguration
	if m.Config != nil {
		config = m.Config.Spec.ClusterConfiguration
	}
	own := config
	own.ControlPlaneEndpoint = "" // The bootstrap provider writes it into any.
	if own.IsDefined() {
		return config, true
	}
	if text, ok := m.Machine.Annotations[RecordAnnotation]; ok {
		return readRecord(text)
	}
	_, _, cloned := clonedFrom(annotationsOf(m.infrastructure()))
	return config, cloned && m.Config != nil
}

// readRecord reads a ClusterConfiguration of this or of an older version of the
// API, where arguments are a map and some fields were others.
func readRecord(text string) (bootstrapv1.ClusterConfiguration, bool) {
	var config bootstrapv1.ClusterConfiguration
	var old any
	if json.Unmarshal([]byte(text), &old) != nil {
		return config, false
	}
	data, err := json.Marshal(listArguments(old))
	if err != nil || json.Unmarshal(data, &config) != nil {
		return bootstrapv1.ClusterConfiguration{}, false
	}
	return config, true
}

// listArguments turns every map called extraArgs into the list that it is today.
func listArguments(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, value := range object {
		arguments, isMap := value.(map[string]any)
		if name != "extraArgs" || !isMap {
			object[name] = listArguments(value)
			continue
		}
		var list []any
		for _, argument := range slices.Sorted(maps.Keys(arguments)) {
			list = append(list, map[string]any{"name": argument, "value": arguments[argument]})
		}
		object[name] = list
	}
	return object
}

// ofNode compares what the machine was told about itself, by init or by join. A
// machine that was made by init is as wanted too if it is what a join would make
// today: the machine in its place would be made by join.
func ofNode(was, want map[string]any) []Difference {
	if joined(was) {
		return compare(spec.node(joinPart), was[joinPart], want[joinPart])
	}
	found := compare(spec.node(initPart), was[initPart], want[initPart])
	if len(found) > 0 && len(compare(spec.node(joinPart), asJoin(was, want), want[joinPart])) == 0 {
		return nil
	}
	return found
}

// joined reports whether a machine was made by join. A controller that makes a
// KubeadmConfig for a join, or bootstraps from it, sets joinConfiguration.controlPlane, but
// Cluster API v1.11 could lose it. What conversions and defaults wrote into the
// part that was not used says nothing.
func joined(was map[string]any) bool {
	join, _ := was[joinPart].(map[string]any)
	if _, ok := join["controlPlane"]; ok {
		return true
	}
	says := func(part string) bool { return len(compare(spec.node(part), nil, was[part])) > 0 }
	return says(joinPart) && !says(initPart)
}

// Patches is the folder on a machine's node with patches of kubeadm's, by what the machine was made from; empty: it has none.
func Patches(config bootstrapv1.KubeadmConfigSpec) string {
	if joined(tree(config)) {
		return config.JoinConfiguration.Patches.Directory
	}
	return config.InitConfiguration.Patches.Directory
}

// asJoin returns the joinConfiguration that would have made the machine that
// initConfiguration made. The path of the CA certificate is for joins only.
func asJoin(was, want map[string]any) map[string]any {
	made, _ := was[initPart].(map[string]any)
	wanted, _ := want[joinPart].(map[string]any)
	join := map[string]any{"caCertPath": wanted["caCertPath"]}
	maps.Copy(join, made)
	join["controlPlane"] = map[string]any{"localAPIEndpoint": join["localAPIEndpoint"]}
	delete(join, "localAPIEndpoint")
	return join
}
