package updates

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
)

func goalOf(version string) drift.Goal {
	return drift.NewGoal(version, bootstrapv1.ClusterConfiguration{}, clusterv1.ContractVersionedObjectReference{Name: "template"})
}

var group = Group{Namespace: "default", Name: "demo-cp", Cluster: "demo", Owner: metav1.OwnerReference{Kind: "KubeadmControlPlane",
	Name: "demo-cp", UID: "cp"}, Goal: goalOf("v1.36.3")}

// parent is the ControlPlaneUpgrade of the group, for three machines.
func parent() *upgradev1.ControlPlaneUpgrade {
	p := group.ControlPlaneUpgrade([]string{"m1", "m2", "m3"})
	p.UID, p.Generation = "parent", 1
	return p
}

// nodeOf returns the NodeUpgrade of a machine with that reason of Progressing; empty: nothing was reported yet.
func nodeOf(machine, reason string) upgradev1.NodeUpgrade {
	u := group.NodeUpgrade(parent(), machine, false)
	if reason != "" {
		conditions.Set(u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: reason, Message: "its message"})
	}
	if reason == upgradev1.Done {
		u.Status.Completed = ptr.To(true)
	}
	return *u
}

// TestMade: what is made belongs together, and has the same name whenever the same is wanted.
func TestMade(t *testing.T) {
	p := parent()
	u := group.NodeUpgrade(p, "m1", true)
	if p.Name != "demo-cp-"+group.Goal.Hash() || u.Name != "m1-"+group.Goal.Hash() || !metav1.IsControlledBy(u, p) ||
		p.OwnerReferences[0].UID != "cp" {
		t.Errorf("%+v\n%+v", p.ObjectMeta, u.ObjectMeta)
	}
	for _, o := range []metav1.Object{p, u} {
		if got := o.GetLabels(); got[clusterv1.ClusterNameLabel] != "demo" || got[clusterv1.MachineControlPlaneNameLabel] != "demo-cp" ||
			got[upgradev1.WantedLabel] != group.Goal.Hash() {
			t.Errorf("%s: %v", o.GetName(), got)
		}
	}
	if u.Spec.NodeType != upgradev1.ControlPlane || !*u.Spec.FirstNodeToBeUpgraded || u.Spec.KubernetesVersion != "v1.36.3" ||
		group.NodeUpgrade(p, "m1", false).Spec.FirstNodeToBeUpgraded != nil {
		t.Errorf("%+v", u.Spec)
	}
	if u.Spec.Kubelet.ExtraArgs != nil || u.Spec.Kubelet.RemovedArgs != nil {
		t.Errorf("%+v", u.Spec.Kubelet)
	}
	with := group
	with.Kubelet = drift.KubeletArgs{Extra: []bootstrapv1.Arg{{Name: "v", Value: ptr.To("4")}, {Name: "b"}}, Removed: []string{"a"}}
	with.Files = []bootstrapv1.File{{Path: "/a", Content: "hunter2"}}
	files := with.NodeUpgrade(p, "m1", true).Spec.Files
	if len(files) != 1 || files[0] != (upgradev1.NodeUpgradeFile{Path: "/a", Hash: drift.FileHash(with.Files[0])}) {
		t.Errorf("%+v", files)
	}
	k := with.NodeUpgrade(p, "m1", true).Spec.Kubelet
	if len(k.ExtraArgs) != 2 || k.ExtraArgs[0].Name != "v" || *k.ExtraArgs[0].Value != "4" || *k.ExtraArgs[1].Value != "" ||
		len(k.RemovedArgs) != 1 || k.RemovedArgs[0] != "a" {
		t.Errorf("%+v", k)
	}
}

// TestFact: what a decision is told of a NodeUpgrade.
func TestFact(t *testing.T) {
	byHand := func(version, reason string) upgradev1.NodeUpgrade {
		u := nodeOf("m1", reason)
		u.Labels, u.Spec.KubernetesVersion = nil, version
		return u
	}
	swapped := func(reason string) upgradev1.NodeUpgrade {
		u := nodeOf("m1", upgradev1.Failed)
		u.Status.Conditions = append(u.Status.Conditions, metav1.Condition{Type: string(steps.Swap), Reason: reason})
		return u
	}
	going := nodeOf("m1", upgradev1.Failed)
	going.DeletionTimestamp = ptr.To(metav1.Now())
	for name, test := range map[string]struct {
		u    upgradev1.NodeUpgrade
		goal drift.Goal
		want plan.Update
	}{
		"not reported yet": {nodeOf("m1", ""), group.Goal, plan.Update{State: plan.UpdateUnderway, Message: "it has not begun"}},
		"waiting": {nodeOf("m1", upgradev1.WaitingForImages), group.Goal,
			plan.Update{State: plan.UpdateUnderway, Message: "WaitingForImages: its message"}},
		"running": {nodeOf("m1", upgradev1.Running), group.Goal,
			plan.Update{State: plan.UpdateUnderway, Message: "its message"}},
		"running, for another": {nodeOf("m1", upgradev1.Running), goalOf("v1.36.4"),
			plan.Update{State: plan.UpdateUnderway, Message: "its message", Obsolete: true}},
		"done": {nodeOf("m1", upgradev1.Done), group.Goal, plan.Update{State: plan.UpdateDone, Message: "Done: its message"}},
		"failed": {nodeOf("m1", upgradev1.Failed), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "Failed: its message"}},
		"rolled back": {nodeOf("m1", upgradev1.RolledBack), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "RolledBack: its message"}},
		"failed, being forgotten": {going, group.Goal, plan.Update{State: plan.UpdateUnderway, Message: "NodeUpgrade " + going.Name +
			" is being deleted"}},
		"failed before the swap": {swapped(upgradev1.Pending), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "Failed: its message"}},
		"failed in the swap": {swapped(upgradev1.Failed), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "Failed: its message"}},
		"rolled back in the swap": {swapped(upgradev1.RolledBack), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "Failed: its message"}},
		"failed after the swap": {swapped(upgradev1.Done), group.Goal, plan.Update{State: plan.UpdateFailed, Message: "Failed: its message",
			Changed: true}},
		"cut off in the swap": {swapped(upgradev1.Interrupted), group.Goal,
			plan.Update{State: plan.UpdateFailed, Message: "Failed: its message", Changed: true}},
		"lost in the swap": {swapped(upgradev1.Running), group.Goal, plan.Update{State: plan.UpdateFailed, Message: "Failed: its message",
			Changed: true}},
		"by hand": {byHand("v1.36.3", upgradev1.Running), group.Goal,
			plan.Update{State: plan.UpdateUnderway, Message: "its message"}},
		"by hand, another version": {byHand("v1.36.4", upgradev1.Running), group.Goal,
			plan.Update{State: plan.UpdateUnderway, Message: "its message", Obsolete: true}},
	} {
		if got := Fact(&test.u, test.goal); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if got := Fact(nil, group.Goal); got != (plan.Update{}) {
		t.Errorf("without a NodeUpgrade: %+v", got)
	}
}

// TestOf: of several NodeUpgrades of a machine that one tells which may act on the node; recorded ones tell nothing.
func TestOf(t *testing.T) {
	named := func(name, reason string, recorded bool) upgradev1.NodeUpgrade {
		u := nodeOf("m1", reason)
		u.Name = name
		if recorded {
			u.Annotations = map[string]string{upgradev1.RecordedAnnotation: "now"}
		}
		return u
	}
	all := []upgradev1.NodeUpgrade{
		named("recorded", upgradev1.Done, true), named("failed", upgradev1.Failed, false), named("done", upgradev1.Done, false),
		named("waiting", upgradev1.WaitingForNode, false), named("running", upgradev1.Running, false), nodeOf("m2", upgradev1.Running),
	}
	for n, want := range []string{"", "failed", "done", "waiting", "running", "running"} {
		got := ""
		if u := (Seen{Nodes: all[:n+1]}).Of("m1"); u != nil {
			got = u.Name
		}
		if got != want {
			t.Errorf("of %d: %q, want %q", n+1, got, want)
		}
	}
}

// TestVerified: when the last upgrade of a machine that is complete was verified, by either clock.
func TestVerified(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	verified := func(machine, reason string, after time.Duration, status metav1.ConditionStatus) upgradev1.NodeUpgrade {
		u := nodeOf(machine, reason)
		conditions.Set(&u, metav1.Condition{Type: string(steps.Verify), Status: status, Reason: upgradev1.Done,
			LastTransitionTime: metav1.NewTime(at.Add(after))})
		conditions.Set(&u, metav1.Condition{Type: upgradev1.Completed, Status: metav1.ConditionTrue, Reason: upgradev1.Done,
			LastTransitionTime: metav1.NewTime(at.Add(after + time.Hour))})
		return u
	}
	seen := Seen{Nodes: []upgradev1.NodeUpgrade{
		verified("m1", upgradev1.Done, 2*time.Second, metav1.ConditionTrue), verified("m1", upgradev1.Done, time.Second, metav1.ConditionTrue),
		verified("m1", upgradev1.Running, 3*time.Second, metav1.ConditionTrue), verified("m1", upgradev1.Done, 4*time.Second,
			metav1.ConditionFalse),
		verified("m2", upgradev1.Done, 5*time.Second, metav1.ConditionTrue), nodeOf("m3", upgradev1.Done),
	}}
	if found, noted := seen.Verified("m1"); !found.Equal(at.Add(2*time.Second)) || !noted.Equal(found.Add(time.Hour)) {
		t.Errorf("m1 was verified at %s, noted at %s", found, noted)
	}
	if found, _ := seen.Verified("m3"); !found.IsZero() {
		t.Errorf("m3 was never verified, and says %s", found)
	}
}

// TestGoalOf: what an upgrade was for is known from what is wanted, or from what it belongs to; of one that a person made only the version
// is.
func TestGoalOf(t *testing.T) {
	u, stranger := nodeOf("m1", upgradev1.Done), nodeOf("m1", upgradev1.Done)
	stranger.Labels = nil
	orphan := nodeOf("m1", upgradev1.Done)
	orphan.OwnerReferences = nil
	for name, test := range map[string]struct {
		u     upgradev1.NodeUpgrade
		now   drift.Goal
		whole bool
	}{
		"wanted now":        {u, group.Goal, true},
		"wanted before":     {u, goalOf("v1.36.4"), true},
		"by hand":           {stranger, group.Goal, false},
		"nobody's any more": {orphan, goalOf("v1.36.4"), false},
	} {
		goal, whole := (Seen{Groups: []upgradev1.ControlPlaneUpgrade{*parent()}}).GoalOf(&test.u, test.now)
		if whole != test.whole || goal.Version != "v1.36.3" || (goal.Infrastructure().Name == "template") != whole {
			t.Errorf("%s: %+v, %t", name, goal, whole)
		}
	}
}

// TestOwned: a control plane believes the ControlPlaneUpgrades that it controls, and none of which the label and the spec alone name it.
func TestOwned(t *testing.T) {
	paused := func(owner metav1.OwnerReference) upgradev1.ControlPlaneUpgrade {
		u := parent().DeepCopy()
		u.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		u.OwnerReferences = []metav1.OwnerReference{owner}
		return *u
	}
	own := metav1.OwnerReference{Kind: "KubeadmControlPlane", Name: group.Name, UID: "own", Controller: ptr.To(true)}
	another, plain := own, own
	another.UID, plain.Controller = "another", nil
	byHand := paused(own)
	byHand.OwnerReferences = nil
	for name, test := range map[string]struct {
		u    upgradev1.ControlPlaneUpgrade
		want bool
	}{
		"its own": {paused(own), true}, "by hand": {byHand, false}, "another control plane's": {paused(another), false},
		"no controller": {paused(plain), false},
	} {
		s := Seen{Groups: Owned([]upgradev1.ControlPlaneUpgrade{test.u}, &metav1.ObjectMeta{UID: own.UID})}
		if s.IsPaused() != test.want {
			t.Errorf("%s pauses: %t", name, s.IsPaused())
		}
		u := nodeOf("m1", upgradev1.Done)
		if _, whole := s.GoalOf(&u, goalOf("v1.36.4")); whole != test.want {
			t.Errorf("%s names the goal: %t", name, whole)
		}
	}
}

// TestStatus: how far an upgrade of a control plane is.
func TestStatus(t *testing.T) {
	behind := func(names ...string) []Machine {
		machines := []Machine{{Name: "m1"}, {Name: "m2"}, {Name: "m3"}, {Name: "later", Behind: true}}
		for i := range machines {
			for _, n := range names {
				machines[i].Behind = machines[i].Behind || machines[i].Name == n
			}
		}
		return machines
	}
	for name, test := range map[string]struct {
		nodes             []upgradev1.NodeUpgrade
		machines          []Machine
		paused            bool
		require, upgraded int64
		reason, message   string
		failures          int
	}{
		"begun": {[]upgradev1.NodeUpgrade{nodeOf("m1", upgradev1.Running)}, behind("m1", "m2", "m3"), false, 3, 0,
			upgradev1.Running, "m1: its message", 0},
		"between two": {nil, behind("m2", "m3"), false, 2, 1, upgradev1.Running, "between two nodes", 0},
		"paused":      {nil, behind("m2", "m3"), true, 2, 1, upgradev1.Paused, "a person holds it between two nodes", 0},
		"paused, one runs": {[]upgradev1.NodeUpgrade{nodeOf("m1", upgradev1.Running)}, behind("m1", "m2", "m3"), true, 3, 0, upgradev1.Running,
			"m1: its message", 0},
		"failed": {[]upgradev1.NodeUpgrade{nodeOf("m1", upgradev1.RolledBack)}, behind("m1", "m2", "m3"), false, 3, 0,
			upgradev1.Failed, "m1: RolledBack: its message", 1},
		"done":             {nil, behind(), false, 0, 3, upgradev1.Done, "", 0},
		"done, one went":   {nil, behind()[1:], false, 0, 2, upgradev1.Done, "", 0},
		"all of them went": {nil, nil, false, 0, 0, upgradev1.Done, "", 0},
		"another one's fails": {[]upgradev1.NodeUpgrade{nodeOf("later", upgradev1.Failed)}, behind("m1"), false, 1, 2, upgradev1.Running,
			"between two nodes", 0},
	} {
		p := parent()
		got := Seen{Nodes: test.nodes}.Status(p, test.machines, test.paused)
		p.Status = got
		c := conditions.Get(p, upgradev1.Progressing)
		if *got.RequireUpgrade != test.require || *got.Upgraded != test.upgraded || *got.Ready != (test.require == 0) ||
			conditions.IsTrue(p, upgradev1.Completed) != *got.Ready ||
			c.Reason != test.reason || c.Message != test.message || len(got.Failures) != test.failures || got.ObservedGeneration != 1 {
			t.Errorf("%s: %d behind, %d upgraded, %+v", name, *got.RequireUpgrade, *got.Upgraded, c)
		}
		if again := (Seen{Nodes: test.nodes}).Status(p, test.machines, test.paused); !conditions.Get(p,
			upgradev1.Progressing).LastTransitionTime.Equal(&again.Conditions[0].LastTransitionTime) &&
			again.Conditions[0].Type == upgradev1.Progressing {
			t.Errorf("%s: the time changes though nothing did", name)
		}
	}
	foreign := nodeOf("m1", upgradev1.Failed)
	foreign.Spec.Machine.Name = "of-another-cluster"
	if (Seen{Nodes: []upgradev1.NodeUpgrade{foreign}}).HasOpen(parent()) {
		t.Error("a NodeUpgrade of a machine that the ControlPlaneUpgrade does not name holds it")
	}
	if p := parent(); (Seen{Nodes: []upgradev1.NodeUpgrade{nodeOf("m1", upgradev1.Failed)}}).HasOpen(p) != true || (Seen{}).HasOpen(p) {
		t.Error("whether work of an upgrade is left is not told")
	}
}
