package group

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestMachineChanges: what a decision or a report may rest on brings about a turn, what nothing is read from does not; whose a Machine is
// matters to other groups.
func TestMachineChanges(t *testing.T) {
	condition := func(kind, message string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Message: message})
		}
	}
	old := func(said clusterv1.MachineV1Beta1DeprecatedStatus) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &said} }
	}
	for name, row := range map[string]struct {
		change      func(*clusterv1.Machine)
		turn, other bool
	}{
		"only written":             {func(m *clusterv1.Machine) { m.ResourceVersion, m.Generation = "2", 2 }, false, false},
		"written by somebody else": {func(m *clusterv1.Machine) { m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} }, false, false},
		"seen": {func(m *clusterv1.Machine) { m.Status.ObservedGeneration, m.Status.LastUpdated = 2, metav1.Now() }, false,
			false},
		"phase":                {func(m *clusterv1.Machine) { m.Status.Phase = string(clusterv1.MachinePhaseRunning) }, false, false},
		"node's health":        {condition(clusterv1.MachineNodeHealthyCondition, ""), false, false},
		"node is ready":        {condition(clusterv1.MachineNodeReadyCondition, ""), false, false},
		"paused":               {condition(clusterv1.PausedCondition, ""), false, false},
		"conditions of before": {old(clusterv1.MachineV1Beta1DeprecatedStatus{Conditions: clusterv1.Conditions{{Type: "Ready"}}}), false, false},
		"failure of before":    {old(clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: ptr.To("broken")}), true, false},
		"labels":               {func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": "b"} }, true, true},
		"annotations":          {func(m *clusterv1.Machine) { m.Annotations = map[string]string{"a": "b"} }, true, false},
		"finalizers":           {func(m *clusterv1.Machine) { m.Finalizers = []string{"a"} }, true, false},
		"owners": {func(m *clusterv1.Machine) {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{Name: "x"})
		}, true, true},
		"another controller": {func(m *clusterv1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: "Third", Name: "x", Controller: ptr.To(true)}}
		}, true, true},
		"no controller":      {func(m *clusterv1.Machine) { m.OwnerReferences = nil }, true, true},
		"deletion":           {func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Now()) }, true, true},
		"spec":               {func(m *clusterv1.Machine) { m.Spec.ProviderID = "x" }, true, false},
		"node":               {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "x" }, true, false},
		"what the node says": {func(m *clusterv1.Machine) { m.Status.NodeInfo = &corev1.NodeSystemInfo{} }, true, false},
		"addresses":          {func(m *clusterv1.Machine) { m.Status.Addresses = clusterv1.MachineAddresses{{Address: "x"}} }, true, false},
		"certificate":        {func(m *clusterv1.Machine) { m.Status.CertificatesExpiryDate = metav1.Now() }, true, false},
		"bootstrap data":     {func(m *clusterv1.Machine) { m.Status.Initialization.BootstrapDataSecretCreated = ptr.To(true) }, true, false},
		"infrastructure":     {func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = ptr.To(true) }, true, false},
		"drain": {func(m *clusterv1.Machine) {
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: metav1.NewTime(time.Now())}
		}, true, false},
		"ready":                       {condition(clusterv1.MachineReadyCondition, ""), true, false},
		"a health check":              {condition(clusterv1.MachineHealthCheckSucceededCondition, ""), true, false},
		"waits for the hook":          {condition(clusterv1.MachineDeletingCondition, ""), true, false},
		"why there is no data":        {condition(clusterv1.MachineBootstrapConfigReadyCondition, "because"), true, false},
		"a condition that is unknown": {condition("x", ""), true, false},
	} {
		before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "Group", Name: "cp", Controller: ptr.To(true)}}}}
		after := before.DeepCopy()
		row.change(after)
		kept := after.DeepCopy()
		e := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		if got := machineChanges("Group").Update(e); got != row.turn {
			t.Errorf("%s: brings about a turn: %t, want %t", name, got, row.turn)
		}
		if others := machineChanges("Other").Update(e); others {
			t.Errorf("%s: brings about a turn of a group of another kind", name)
		}
		if got := ownerChanges().Update(e); got != row.other {
			t.Errorf("%s: matters to other groups: %t, want %t", name, got, row.other)
		}
		if !equality.Semantic.DeepEqual(after, kept) {
			t.Errorf("%s: the Machine in the cache was changed", name)
		}
	}
	for name, p := range map[string]interface {
		Create(event.CreateEvent) bool
		Delete(event.DeleteEvent) bool
	}{"machineChanges": machineChanges("Group"), "ownerChanges": ownerChanges()} {
		if m := (&clusterv1.Machine{}); !p.Create(event.CreateEvent{Object: m}) || !p.Delete(event.DeleteEvent{Object: m}) {
			t.Errorf("%s does not tell of beginning and end", name)
		}
	}
}
