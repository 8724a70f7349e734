package drift

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// OriginAnnotation on an object of a machine lists what of it came from the
// control plane, as JSON: the keys of labels and annotations, on a Machine also
// taints and readiness gates. What is listed and no longer wanted is removed;
// all else stays, whoever set it.
const OriginAnnotation = "controlplane.cluster.x-k8s.io/quorate-origin"

// nodeDeletionSeconds is what Cluster API's webhook sets where a Machine says nothing.
const nodeDeletionSeconds int32 = 10

// Changes are what the objects of one machine should carry without being replaced.
type Changes struct {
	Machine MachineChange
	// Config and Infrastructure are empty for an object that is not known.
	Config, Infrastructure Metadata
}

// Metadata are all labels and annotations that an object should have, those of
// others included.
type Metadata struct {
	Labels, Annotations map[string]string
	// Differs: the object does not have them.
	Differs bool
}

// MachineChange is what a Machine should carry. Lists are whole, what others
// added included.
type MachineChange struct {
	Metadata       Metadata
	Deletion       clusterv1.MachineDeletionSpec
	Taints         []clusterv1.MachineTaint
	ReadinessGates []clusterv1.MachineReadinessGate
	// Differs: the Machine does not carry them, metadata included.
	Differs bool
}

// origin is what of an object came from the control plane.
type origin struct {
	Labels         []string `json:"labels,omitempty"`
	Annotations    []string `json:"annotations,omitempty"`
	Taints         []string `json:"taints,omitempty"`
	ReadinessGates []string `json:"readinessGates,omitempty"`
}

// InPlace returns what a control plane wants its machine to carry while it
// lives. Of an empty machine it is what a new one should be made with.
//
// A key that left the template is removed if OriginAnnotation lists it; an
// object without that annotation loses nothing, and gets it. The hook that
// holds a Machine for its member is never added, changed or removed. A Machine
// that is being deleted gets only what its deletion depends on: timeouts and taints.
func InPlace(kcp *controlplanev1.KubeadmControlPlane, cluster string, m Machine) Changes {
	labels, annotations := wantedLabels(kcp, cluster), wantedAnnotations(kcp)
	changes := Changes{Machine: machineChange(kcp, m.Machine)}
	if !m.Machine.DeletionTimestamp.IsZero() {
		return changes
	}
	own := ownOrigin(kcp)
	changes.Machine.Metadata = metadata(m.Machine, labels, annotations, own)
	changes.Machine.Differs = changes.Machine.Differs || changes.Machine.Metadata.Differs
	own.Taints, own.ReadinessGates = nil, nil
	if m.Config != nil {
		changes.Config = metadata(m.Config, labels, annotations, own)
	}
	if m.Infrastructure != nil {
		changes.Infrastructure = metadata(m.Infrastructure, labels, annotations, own)
	}
	return changes
}

// Identity are the labels that say whose a machine is. They win over the user's.
func Identity(kcp *controlplanev1.KubeadmControlPlane, cluster string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:             cluster,
		clusterv1.MachineControlPlaneLabel:     "",
		clusterv1.MachineControlPlaneNameLabel: format.MustFormatValue(kcp.Name),
	}
}

// wantedLabels are those of every object of a machine. Who looks only at objects
// with the watch label must see those of its control plane.
func wantedLabels(kcp *controlplanev1.KubeadmControlPlane, cluster string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, kcp.Spec.MachineTemplate.ObjectMeta.Labels)
	maps.Copy(out, Identity(kcp, cluster))
	if filter, ok := kcp.Labels[clusterv1.WatchLabel]; ok {
		out[clusterv1.WatchLabel] = filter
	}
	return out
}

// wantedAnnotations are the user's.
func wantedAnnotations(kcp *controlplanev1.KubeadmControlPlane) map[string]string {
	out := map[string]string{}
	for key, value := range kcp.Spec.MachineTemplate.ObjectMeta.Annotations {
		if !reserved(key) {
			out[key] = value
		}
	}
	return out
}

// reserved reports whether a label or annotation is kept by the control plane in
// another way, and neither a template nor OriginAnnotation has a say in it.
func reserved(key string) bool {
	switch key {
	case upstream.PreTerminateHookCleanupAnnotation, upstream.RemediationForAnnotation, controlplanev1.MemberRemovedAnnotation, OriginAnnotation,
		clusterv1.ClusterNameLabel, clusterv1.MachineControlPlaneLabel, clusterv1.MachineControlPlaneNameLabel:
		return true
	}
	return false
}

// ownOrigin lists what comes from the control plane and may leave it again.
func ownOrigin(kcp *controlplanev1.KubeadmControlPlane) origin {
	var own origin
	for _, key := range slices.Sorted(maps.Keys(wantedLabels(kcp, ""))) {
		if !reserved(key) {
			own.Labels = append(own.Labels, key)
		}
	}
	own.Annotations = slices.Sorted(maps.Keys(wantedAnnotations(kcp)))
	for _, taint := range kcp.Spec.MachineTemplate.Spec.Taints {
		own.Taints = append(own.Taints, taintKey(taint))
	}
	for _, gate := range kcp.Spec.MachineTemplate.Spec.ReadinessGates {
		own.ReadinessGates = append(own.ReadinessGates, gateKey(gate))
	}
	slices.Sort(own.Taints)
	slices.Sort(own.ReadinessGates)
	return own
}

// originOf reads what came from the control plane. What cannot be read lists nothing.
func originOf(object metav1.Object) origin {
	var was origin
	if json.Unmarshal([]byte(object.GetAnnotations()[OriginAnnotation]), &was) != nil {
		return origin{}
	}
	return was
}

// String is the origin as its annotation; empty if nothing is listed.
func (o origin) String() string {
	data, err := json.Marshal(o)
	if err != nil || string(data) == "{}" {
		return ""
	}
	return string(data)
}

// metadata returns what labels and annotations an object should have.
func metadata(object metav1.Object, labels, annotations map[string]string, own origin) Metadata {
	was := originOf(object)
	out := Metadata{
		Labels:      merge(object.GetLabels(), labels, was.Labels),
		Annotations: merge(object.GetAnnotations(), annotations, was.Annotations),
	}
	delete(out.Annotations, OriginAnnotation)
	if text := own.String(); text != "" {
		out.Annotations[OriginAnnotation] = text
	}
	out.Differs = !maps.Equal(out.Labels, object.GetLabels()) || !maps.Equal(out.Annotations, object.GetAnnotations())
	return out
}

// merge returns what is there and what is wanted, without what was wanted before.
func merge(has, want map[string]string, before []string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, has)
	for _, key := range before {
		if !reserved(key) {
			delete(out, key)
		}
	}
	maps.Copy(out, want)
	return out
}

// machineChange returns what a Machine's spec should hold. Its metadata are left as they are.
func machineChange(kcp *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) MachineChange {
	template, was := kcp.Spec.MachineTemplate.Spec.DeepCopy(), originOf(m)
	change := MachineChange{
		Metadata:       Metadata{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)},
		Deletion:       *m.Spec.Deletion.DeepCopy(),
		Taints:         mergeList(m.Spec.Taints, template.Taints, taintKey, was.Taints),
		ReadinessGates: slices.Clone(m.Spec.ReadinessGates),
	}
	change.Deletion.NodeDrainTimeoutSeconds = template.Deletion.NodeDrainTimeoutSeconds
	change.Deletion.NodeVolumeDetachTimeoutSeconds = template.Deletion.NodeVolumeDetachTimeoutSeconds
	change.Deletion.NodeDeletionTimeoutSeconds = orDefault(template.Deletion.NodeDeletionTimeoutSeconds)
	if m.DeletionTimestamp.IsZero() {
		change.ReadinessGates = mergeList(m.Spec.ReadinessGates, readinessGates(kcp), gateKey, append(was.ReadinessGates, mandatoryGates(true)...))
	}
	change.Differs = !sameDeletion(m.Spec.Deletion, change.Deletion) ||
		!slices.Equal(m.Spec.Taints, change.Taints) || !slices.Equal(m.Spec.ReadinessGates, change.ReadinessGates)
	return change
}

// sameDeletion compares timeouts. A Machine that says nothing of its Node's
// deletion means the default.
func sameDeletion(a, b clusterv1.MachineDeletionSpec) bool {
	return same32(a.NodeDrainTimeoutSeconds, b.NodeDrainTimeoutSeconds) &&
		same32(a.NodeVolumeDetachTimeoutSeconds, b.NodeVolumeDetachTimeoutSeconds) &&
		same32(orDefault(a.NodeDeletionTimeoutSeconds), b.NodeDeletionTimeoutSeconds)
}

func same32(a, b *int32) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func orDefault(seconds *int32) *int32 {
	if seconds != nil {
		return seconds
	}
	seconds = new(int32)
	*seconds = nodeDeletionSeconds
	return seconds
}

// mandatoryGates are the conditions of the control plane that a Machine needs to be Ready.
func mandatoryGates(etcd bool) []string {
	types := []string{
		upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition,
		upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
	}
	if etcd {
		types = append(types,
			upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
			upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition)
	}
	return types
}

// readinessGates are the mandatory ones, those of etcd where it runs on the
// machines, and the user's own.
func readinessGates(kcp *controlplanev1.KubeadmControlPlane) []clusterv1.MachineReadinessGate {
	stacked := !kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined()
	var gates []clusterv1.MachineReadinessGate
	for _, condition := range mandatoryGates(stacked) {
		gates = append(gates, clusterv1.MachineReadinessGate{ConditionType: condition})
	}
	for _, gate := range kcp.Spec.MachineTemplate.Spec.ReadinessGates {
		known := func(g clusterv1.MachineReadinessGate) bool { return g.ConditionType == gate.ConditionType }
		if !slices.ContainsFunc(gates, known) {
			gates = append(gates, gate)
		}
	}
	return gates
}

func gateKey(gate clusterv1.MachineReadinessGate) string { return gate.ConditionType }

func taintKey(taint clusterv1.MachineTaint) string { return taint.Key + ":" + string(taint.Effect) }

// mergeList is merge for lists whose elements have keys. What is there keeps its
// place: order means nothing, and moving it would be a change.
func mergeList[T any](has, want []T, key func(T) string, before []string) []T {
	var out []T
	for _, old := range has {
		at := slices.IndexFunc(want, func(t T) bool { return key(t) == key(old) })
		switch {
		case at >= 0:
			out = append(out, want[at])
			want = slices.Delete(slices.Clone(want), at, at+1)
		case !slices.Contains(before, key(old)):
			out = append(out, old)
		}
	}
	return append(out, want...)
}
