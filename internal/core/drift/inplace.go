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

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// OriginAnnotation on an object of a machine lists what of it came from its
// group, as JSON: the keys of labels and annotations, on a Machine also
// taints and readiness gates. What is listed and no longer wanted is removed;
// all else stays.
const OriginAnnotation = "controlplane.cluster.x-k8s.io/quorate-origin"

// nodeDeletionSeconds is what Cluster API's webhook sets where a Machine says nothing.
const nodeDeletionSeconds int32 = 10

// Changes are what the objects of one machine should carry without being replaced.
type Changes struct {
	Machine MachineChange
	// Config is for the bootstrap object, of whatever kind. It and Infrastructure are
	// empty for an object that is not known.
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

// origin is what of an object came from its group.
type origin struct {
	Labels         []string `json:"labels,omitempty"`
	Annotations    []string `json:"annotations,omitempty"`
	Taints         []string `json:"taints,omitempty"`
	ReadinessGates []string `json:"readinessGates,omitempty"`
}

// InPlace returns what a group wants its machine to carry while it lives. Of an
// empty machine it is what a new one should be made with.
//
// A key that left the template is removed if OriginAnnotation lists it; an
// object without that annotation loses nothing, and gets it. The hook that holds a
// Machine for its member is put on again where it was lost, and never changed or
// removed. A Machine that is being deleted gets only what its deletion depends on:
// timeouts and taints.
func (w Wanted) InPlace(cluster string, m Machine) Changes {
	labels, annotations := w.labels(cluster), w.annotations()
	changes := Changes{Machine: w.machineChange(m.Machine)}
	if !m.Machine.DeletionTimestamp.IsZero() {
		return changes
	}
	own := w.origin()
	changes.Machine.Metadata = metadata(m.Machine, labels, annotations, own)
	if _, on := m.Machine.Annotations[upstream.PreTerminateHookCleanupAnnotation]; !on {
		changes.Machine.Metadata.Annotations[upstream.PreTerminateHookCleanupAnnotation] = ""
		changes.Machine.Metadata.Differs = true
	}
	changes.Machine.Differs = changes.Machine.Differs || changes.Machine.Metadata.Differs
	own.Taints, own.ReadinessGates = nil, nil
	if object := m.bootstrap(); object != nil {
		changes.Config = metadata(object, labels, annotations, own)
	}
	if object := m.infrastructure(); object != nil {
		changes.Infrastructure = metadata(object, labels, annotations, own)
	}
	return changes
}

// IdentityLabels are the labels that say to which group of which cluster a machine
// belongs. They win over the user's.
func IdentityLabels(name, cluster string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:             cluster,
		clusterv1.MachineControlPlaneLabel:     "",
		clusterv1.MachineControlPlaneNameLabel: format.MustFormatValue(name),
	}
}

// EtcdLabels are the same for a machine of an etcd cluster, which is no control plane's.
func EtcdLabels(name, cluster string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:       cluster,
		etcdclusterv1alpha1.MachineLabel: name,
	}
}

// labels are those of every object of a machine. Who looks only at objects with the
// watch label must see those of its group.
func (w Wanted) labels(cluster string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, w.Metadata.Labels)
	if w.Etcd {
		maps.Copy(out, EtcdLabels(w.Name, cluster))
	} else {
		maps.Copy(out, IdentityLabels(w.Name, cluster))
	}
	if w.WatchFilter != nil {
		out[clusterv1.WatchLabel] = *w.WatchFilter
	}
	return out
}

// annotations are the user's.
func (w Wanted) annotations() map[string]string {
	out := map[string]string{}
	for key, value := range w.Metadata.Annotations {
		if !reserved(key) {
			out[key] = value
		}
	}
	return out
}

// reserved reports whether a label or annotation is kept by the group in another
// way, and neither a template nor OriginAnnotation has a say in it.
func reserved(key string) bool {
	switch key {
	case upstream.PreTerminateHookCleanupAnnotation, upstream.RemediationForAnnotation, controlplanev1.MemberRemovedAnnotation,
		controlplanev1.CreatedAnnotation, OriginAnnotation, ProviderSpecAnnotation,
		clusterv1.ClusterNameLabel, clusterv1.MachineControlPlaneLabel, clusterv1.MachineControlPlaneNameLabel, etcdclusterv1alpha1.MachineLabel:
		return true
	}
	return false
}

// origin lists what comes from the group and may leave it again.
func (w Wanted) origin() origin {
	var own origin
	for _, key := range slices.Sorted(maps.Keys(w.labels(""))) {
		if !reserved(key) {
			own.Labels = append(own.Labels, key)
		}
	}
	own.Annotations = slices.Sorted(maps.Keys(w.annotations()))
	for _, taint := range w.Taints {
		own.Taints = append(own.Taints, taintKey(taint))
	}
	for _, gate := range w.ReadinessGates {
		own.ReadinessGates = append(own.ReadinessGates, gateKey(gate))
	}
	slices.Sort(own.Taints)
	slices.Sort(own.ReadinessGates)
	return own
}

// originOf reads what came from the group. What cannot be read lists nothing.
func originOf(object metav1.Object) origin {
	var was origin
	if json.Unmarshal([]byte(object.GetAnnotations()[OriginAnnotation]), &was) != nil {
		return origin{}
	}
	return was
}

// FromTemplate returns the labels and annotations of an object that came from its group's template, by what is noted on the object. noted:
// something is.
func FromTemplate(object metav1.Object) (labels, annotations map[string]string, noted bool) {
	was := originOf(object)
	_, noted = object.GetAnnotations()[OriginAnnotation]
	of := func(all map[string]string, keys []string) map[string]string {
		var kept map[string]string
		for _, key := range keys {
			if value, has := all[key]; has && !reserved(key) && key != clusterv1.WatchLabel {
				if kept == nil {
					kept = map[string]string{}
				}
				kept[key] = value
			}
		}
		return kept
	}
	return of(object.GetLabels(), was.Labels), of(object.GetAnnotations(), was.Annotations), noted
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
func (w Wanted) machineChange(m *clusterv1.Machine) MachineChange {
	deletion, was := w.Deletion.DeepCopy(), originOf(m)
	change := MachineChange{
		Metadata:       Metadata{Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)},
		Deletion:       *m.Spec.Deletion.DeepCopy(),
		Taints:         mergeList(m.Spec.Taints, w.Taints, taintKey, was.Taints),
		ReadinessGates: slices.Clone(m.Spec.ReadinessGates),
	}
	change.Deletion.NodeDrainTimeoutSeconds = deletion.NodeDrainTimeoutSeconds
	change.Deletion.NodeVolumeDetachTimeoutSeconds = deletion.NodeVolumeDetachTimeoutSeconds
	change.Deletion.NodeDeletionTimeoutSeconds = orDefault(deletion.NodeDeletionTimeoutSeconds)
	if m.DeletionTimestamp.IsZero() {
		change.ReadinessGates = mergeList(m.Spec.ReadinessGates, w.gates(), gateKey, append(was.ReadinessGates, w.RetiredGates...))
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

// gates are the required ones and the user's own.
func (w Wanted) gates() []clusterv1.MachineReadinessGate {
	var gates []clusterv1.MachineReadinessGate
	for _, condition := range w.RequiredGates {
		gates = append(gates, clusterv1.MachineReadinessGate{ConditionType: condition})
	}
	for _, gate := range w.ReadinessGates {
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
