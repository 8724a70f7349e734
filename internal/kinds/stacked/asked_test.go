package stacked

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// ask lets a person ask that machines be replaced: names, each with the machine's own time, unless one is given.
func (w *world) ask(entries ...string) {
	w.t.Helper()
	for i, entry := range entries {
		if name, _, given := strings.Cut(entry, "="); !given {
			value, err := observe.AskFor("", w.machine(name), nil)
			if err != nil {
				w.t.Fatal(err)
			}
			entries[i] = value
		}
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations[controlplanev1.ReplaceAnnotation] = strings.Join(entries, ",")
	})
}

// notRolling is what RollingOut says while nothing is rolled out.
func (w *world) notRolling() string {
	c := conditions.Get(w.kcp(), upstream.KubeadmControlPlaneRollingOutCondition)
	if c.Reason != upstream.KubeadmControlPlaneNotRollingOutReason {
		w.t.Errorf("RollingOut is %+v", c)
	}
	return c.Message
}

// TestAsked: a machine that a person named is replaced, a new one first, and the others stay. The annotation stays, and asks for nothing
// more, after a move neither.
func TestAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*controlplanev1.KubeadmControlPlane)
		most   int
	}{
		"surge": {func(*controlplanev1.KubeadmControlPlane) {}, 4},
		"no surge": {func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
		}, 2},
		"in place where possible": {inPlacePreferredOnly, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.change(test.change)
			w.ask("demo-cp-2")
			w.settle()
			staying := slices.DeleteFunc(w.machines(), func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
			if len(staying) != test.most || len(w.upgrades()) > 0 {
				t.Errorf("after the first step %d machines stay, %d updates in place", len(staying), len(w.upgrades()))
			}
			const why = "annotation quorate-replace: made "
			if c := conditions.Get(w.machine("demo-cp-2"), clusterv1.MachineUpToDateCondition); !strings.HasPrefix(c.Message, "* "+why) &&
				!strings.HasPrefix(c.Message, why) {
				t.Errorf("UpToDate is %+v", c)
			}
			if p := w.live(); p.Step != string(plan.Nothing) {
				t.Fatalf("it ends with %+v", p)
			}
			after := []string{"demo-cp-1", "demo-cp-3", "demo-cp-4"}
			if got := w.machineNames(); !slices.Equal(got, after) {
				t.Errorf("machines %v, want %v", got, after)
			}
			if got := w.notRolling(); !strings.Contains(got, "demo-cp-2 (no such machine)") {
				t.Errorf("RollingOut says %q", got)
			}
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) { // moved: the status is lost
				kcp.Status = controlplanev1.KubeadmControlPlaneStatus{}
			})
			if p := w.settle(); p.Step != string(plan.Nothing) || !slices.Equal(w.machineNames(), after) {
				t.Errorf("after a move: %+v, %v", p, w.machineNames())
			}
		})
	}
}

// inPlacePreferredOnly changes the policy, and nothing that machines consist of.
func inPlacePreferredOnly(kcp *controlplanev1.KubeadmControlPlane) {
	kcp.Spec.InPlace.Policy = controlplanev1.InPlacePreferred
}

// TestAskedInVain: what names no machine that is meant replaces none, and is told.
func TestAskedInVain(t *testing.T) {
	w := grown(t, 3)
	past, future := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for value, told := range map[string]string{
		"demo-cp-9=" + past:   "demo-cp-9 (no such machine)",
		"demo-cp-2=" + past:   "demo-cp-2 (made after " + past + ")",
		"demo-cp-2=" + future: "demo-cp-2 (not before " + future + ")",
		"demo-cp-2=now":       `No machine is replaced: the annotation ` + controlplanev1.ReplaceAnnotation + ` is "demo-cp-2=now"`,
		"DEMO cp=" + past:     `names "DEMO cp", which cannot be the name of a Machine`,
		"demo-cp-2=" + past + strings.Repeat(",", 5000): "has 5030 bytes, must have at most 4096",
	} {
		w.ask(value)
		if p := w.settle(); p.Step != string(plan.Nothing) || len(w.machines()) != 3 {
			t.Errorf("%.40q: %+v", value, p)
		}
		if got := w.notRolling(); !strings.Contains(got, told) {
			t.Errorf("%.40q: RollingOut says %q, want %q", value, got, told)
		}
	}
}

// TestAskedByPolicy: with the policy Only, and External, a request waits with its reason, and no update in place is begun for it.
func TestAskedByPolicy(t *testing.T) {
	for policy, reason := range map[controlplanev1.InPlacePolicy]string{
		controlplanev1.InPlaceOnly: "CannotUpdateInPlace", controlplanev1.InPlaceExternal: "UpdatedElsewhere",
	} {
		w := grown(t, 3)
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.InPlace.Policy = policy })
		w.ask("demo-cp-2")
		if p := w.step(); p.Step != string(plan.Wait) || p.Reason != reason ||
			!strings.Contains(p.Message, "demo-cp-2: annotation quorate-replace: made ") || len(w.upgrades()) > 0 || len(w.machines()) != 3 {
			t.Errorf("%s: %+v", policy, p)
		}
	}
}

// TestAskedNeedsApproval: where approvals are needed a request needs one too. One that is added to an approved rollout does: who asks may
// not be allowed to approve.
func TestAskedNeedsApproval(t *testing.T) {
	w := grown(t, 3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Approval.Policy = controlplanev1.ApprovalRequired
		kcp.Annotations[controlplanev1.ApprovedAnnotation], _ = observe.Revision(kcp)
	})
	w.ask("demo-cp-2")
	if p := w.step(); p.Reason != "ApprovalRequired" || !strings.Contains(p.Message, "demo-cp-2: annotation quorate-replace") {
		t.Fatalf("not approved: %+v", p)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations[controlplanev1.ApprovedAnnotation], _ = observe.Revision(kcp)
	})
	if p := w.live(); p.Step != string(plan.Nothing) || slices.Contains(w.machineNames(), "demo-cp-2") {
		t.Errorf("approved: %+v, %v", p, w.machineNames())
	}
}

// TestAskedWithExtension: no Runtime Extension is asked about a request. The machine is replaced, although the extension changes all that
// it is asked about.
func TestAskedWithExtension(t *testing.T) {
	w, m := metalWorld(t, 3)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Policy, kcp.Spec.InPlace.Updater = controlplanev1.InPlacePreferred, controlplanev1.UpdaterExtension
	})
	w.ask("demo-cp-2")
	if p := w.live(); p.Step != string(plan.Nothing) || !slices.Equal(w.machineNames(), []string{"demo-cp-1", "demo-cp-3", "demo-cp-4"}) {
		t.Errorf("%+v, %v", p, w.machineNames())
	}
	if len(m.asked) > 0 || len(w.markedMachines()) > 0 {
		t.Errorf("asked about %v, updated are %v", m.asked, w.markedMachines())
	}
}
