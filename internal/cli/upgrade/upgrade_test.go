package upgrade

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/manager"
)

var key = client.ObjectKey{Namespace: "default", Name: "demo"}

func named(name string, owner client.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
	}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, upgradev1.GroupVersion.WithKind("ControlPlaneUpgrade"))}
	}
	return m
}

// objects are the upgrade of two machines of three, one of which failed, one that a person made, one that Cluster API's controllers follow,
// and those of another cluster, one of which has the label of this one.
func objects() []client.Object {
	all := &upgradev1.ControlPlaneUpgrade{ObjectMeta: named("demo-cp-1a2b", nil), Spec: upgradev1.ControlPlaneUpgradeSpec{
		ControlPlane:           clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "demo-cp"},
		MachinesRequireUpgrade: []upgradev1.MachineReference{{Name: "demo-cp-1"}, {Name: "demo-cp-2"}, {Name: "demo-cp-3"}},
		KubernetesVersion:      "v1.36.3",
	}}
	node := func(name string, owner client.Object, status upgradev1.NodeUpgradeStatus) *upgradev1.NodeUpgrade {
		return &upgradev1.NodeUpgrade{ObjectMeta: named(name+"-1a2b", owner), Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: name}, KubernetesVersion: "v1.36.3",
		}, Status: status}
	}
	since := metav1.NewTime(time.Unix(1_700_000_024, 0))
	followed := node("demo-worker-2", nil, upgradev1.NodeUpgradeStatus{FailedStep: "Copy", Conditions: []metav1.Condition{
		{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: upgradev1.Failed, Message: "no space left",
			LastTransitionTime: since},
	}})
	followed.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&clusterv1.Machine{ObjectMeta: named("demo-worker-2", nil)},
		clusterv1.GroupVersion.WithKind("Machine"))}
	other := node("other-cp-1", nil, upgradev1.NodeUpgradeStatus{FailedStep: "copy"})
	other.Labels[clusterv1.ClusterNameLabel] = "other"
	foreign := node("foreign-cp-1", nil, upgradev1.NodeUpgradeStatus{FailedStep: "Copy"}) // its label claims that it is of demo
	return []client.Object{
		all,
		node("demo-cp-1", all, upgradev1.NodeUpgradeStatus{Completed: ptr.To(true), Conditions: []metav1.Condition{
			{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: upgradev1.Done, LastTransitionTime: since},
		}}),
		node("demo-cp-2", all, upgradev1.NodeUpgradeStatus{FailedStep: "Swap", Steps: []string{"Copy", "Swap"}, Conditions: []metav1.Condition{
			{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack, Message: "the API server did not come up",
				LastTransitionTime: since},
			{Type: "Copy", Status: metav1.ConditionTrue, Reason: upgradev1.Done, LastTransitionTime: since},
			{Type: "Swap", Status: metav1.ConditionFalse, Reason: upgradev1.Running, LastTransitionTime: since},
		}}),
		node("demo-worker-1", nil, upgradev1.NodeUpgradeStatus{}),
		followed,
		other, foreign,
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign-cp-1"},
			Spec: clusterv1.MachineSpec{ClusterName: "other"}},
	}
}

func TestRead(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects()...).Build()
	got, err := Read(context.Background(), c, key)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	var b strings.Builder
	for _, l := range lines(key, got) {
		b.WriteString(l.String() + "\n")
	}
	want := `KubeadmControlPlane demo-cp to v1.36.3: 1 of 3 upgraded
  demo-cp-1  done in 24 s
  demo-cp-2  Swap failed: the API server did not come up
  demo-cp-3  waits for its turn
Machine demo-worker-1 to v1.36.3: 0 of 1 upgraded
  demo-worker-1
Machine demo-worker-2 to v1.36.3: 0 of 1 upgraded
  demo-worker-2  Copy failed: no space left
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
	if steps := got[0].Nodes[1].Steps; len(steps) != 2 || !steps[0].Done || steps[0].Running || !steps[1].Running || steps[1].Done {
		t.Errorf("steps: %+v", steps)
	}
}

func TestVerbs(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects()...).Build()
	var out bytes.Buffer
	a := &app{&command.Invocation{Streams: command.Streams{Out: &out, Err: &out}, Environment: func(string) string { return "" }}}
	give := func(on Verb) {
		t.Helper()
		if err := a.give(context.Background(), c, key, on); err != nil {
			t.Errorf("%s: %v", on, err)
		}
	}
	annotated := func(o client.Object, name, annotation string) bool {
		t.Helper()
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
			t.Fatal(err)
		}
		_, on := o.GetAnnotations()[annotation]
		return on
	}
	give(Pause)
	if !annotated(&upgradev1.ControlPlaneUpgrade{}, "demo-cp-1a2b", clusterv1.PausedAnnotation) ||
		!annotated(&upgradev1.NodeUpgrade{}, "demo-worker-1-1a2b", clusterv1.PausedAnnotation) {
		t.Error("not paused")
	}
	if err := a.give(context.Background(), c, key, Pause); !errors.Is(err, ErrNothing) {
		t.Errorf("paused twice: %v", err)
	}
	give(Resume)
	if annotated(&upgradev1.ControlPlaneUpgrade{}, "demo-cp-1a2b", clusterv1.PausedAnnotation) {
		t.Error("not resumed")
	}
	give(Retry)
	for name, want := range map[string]bool{"demo-cp-1-1a2b": false, "demo-cp-2-1a2b": true, "demo-worker-2-1a2b": true,
		"other-cp-1-1a2b": false} {
		if got := annotated(&upgradev1.NodeUpgrade{}, name, upgradev1.RetryAnnotation); got != want {
			t.Errorf("%s tried again: %v", name, got)
		}
	}
	if !strings.Contains(out.String(), "demo-cp-2 is tried again from Swap\n") {
		t.Errorf("it says %q", out.String())
	}
}

// TestRollBack: what no machine has yet is given up, and nothing else.
func TestRollBack(t *testing.T) {
	machine := func(name, version string) client.Object {
		return &clusterv1.Machine{ObjectMeta: named(name, nil), Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: version}}
	}
	both := []client.Object{machine("demo-cp-1", "v1.35.4"), machine("demo-cp-2", "v1.35.4")}
	failed := upgradev1.NodeUpgradeStatus{FailedStep: "Swap", Conditions: []metav1.Condition{
		{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack},
		{Type: "Swap", Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack},
	}}
	committed := upgradev1.NodeUpgradeStatus{FailedStep: "Finish", Conditions: []metav1.Condition{
		{Type: "Swap", Status: metav1.ConditionTrue, Reason: upgradev1.Done},
	}}
	for name, c := range map[string]struct {
		status   *upgradev1.NodeUpgradeStatus
		machines []client.Object
		paused   bool
		want     string // in the error; empty: it is rolled back
	}{
		"rolled back by the node": {&failed, both, false, ""},
		"failed after the swap":   {&committed, both, false, "demo-cp-1 has v1.36.3 already"},
		"done":                    {&upgradev1.NodeUpgradeStatus{Completed: ptr.To(true)}, both, true, "demo-cp-1 has v1.36.3 already"},
		"under way":               {&upgradev1.NodeUpgradeStatus{}, both, true, "demo-cp-1 is being upgraded"},
		"not begun":               {nil, both, false, "may begin at any moment"},
		"not begun, and paused":   {nil, both, true, ""},
		"another argument": {&failed, []client.Object{machine("demo-cp-1", "v1.36.3"), both[1]}, false,
			"put back in the spec what was changed"},
		"two versions":      {&failed, []client.Object{both[0], machine("demo-cp-2", "v1.35.0")}, false, "v1.35.4 and v1.35.0"},
		"a machine is gone": {&failed, both[:1], false, "reading Machine demo-cp-2"},
	} {
		all := objects()[0].(*upgradev1.ControlPlaneUpgrade)
		all.Spec.MachinesRequireUpgrade = all.Spec.MachinesRequireUpgrade[:2]
		if c.paused {
			all.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}
		kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: named("demo-cp", nil)}
		kcp.Spec.Version = "v1.36.3"
		there := append([]client.Object{all, kcp}, c.machines...)
		if c.status != nil {
			there = append(there, &upgradev1.NodeUpgrade{ObjectMeta: named("demo-cp-1-1a2b", all), Status: *c.status,
				Spec: upgradev1.NodeUpgradeSpec{
					Machine: upgradev1.MachineReference{Name: "demo-cp-1"}, KubernetesVersion: "v1.36.3",
				}})
		}
		api := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(there...).Build()
		var out bytes.Buffer
		a := &app{&command.Invocation{Streams: command.Streams{Out: &out, Err: &out}, Environment: func(string) string { return "" }}}
		err := a.rollback(t.Context(), api, key)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(kcp), kcp); err != nil {
			t.Fatal(err)
		}
		if back := kcp.Spec.Version == "v1.35.4"; back != (c.want == "") {
			t.Errorf("%s: the version is %s", name, kcp.Spec.Version)
		}
	}
	api := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
	a := &app{&command.Invocation{}}
	if err := a.rollback(t.Context(), api, key); !errors.Is(err, ErrNothing) {
		t.Errorf("no upgrade: %v", err)
	}
}
