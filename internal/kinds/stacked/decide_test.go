package stacked

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// strangeID is that of an etcd member of no known machine.
const strangeID = 0x77

// offered is what a person can decide, as the command line would read it now.
func (w *world) offered() []plan.Offer {
	return plan.Offers(w.scene().Facts)
}

// decides writes a decision on the control plane, with who took it, as admission records that; empty: nobody did.
func (w *world) decides(f plan.Offer, by string) {
	name, value := observe.DecisionAnnotation(f)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations[name] = value
		if by != "" {
			kcp.Annotations[controlplanev1.DecidedByPrefix+f.Choice.Digest] = by
		}
	})
}

// jane is who took a decision now, as admission records it.
func jane() string { return time.Now().UTC().Format(time.RFC3339) + " jane" }

// isStrange reports whether the member of no known machine is in etcd.
func (w *world) isStrange() bool {
	return slices.ContainsFunc(w.members, func(m etcd.Member) bool { return m.ID == strangeID })
}

// decisions are the annotations of decisions.
func (w *world) decisions() []string {
	return slices.DeleteFunc(keys(w.kcp().Annotations), func(name string) bool {
		return !strings.HasPrefix(name, controlplanev1.DecisionPrefix) && !strings.HasPrefix(name, controlplanev1.DecidedByPrefix)
	})
}

// TestDecideRemoveVoter: a voter that answers and has no machine stays until a person decides that it leaves; then it leaves, the decision
// goes, and the history tells who took it. What nobody recorded, and what was decided for other facts, removes nobody.
func TestDecideRemoveVoter(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) {
		w := rest.world(t)
		w.members = append(w.members, etcd.Member{ID: strangeID, Name: "demo-cp-9", Health: plan.Healthy})
		w.view.Nodes = append(w.view.Nodes, testNode("demo-cp-9"))
		w.forgetEtcd()
		w.settle()
		time.Sleep(time.Hour)
		w.forgetEtcd()
		if p := w.settle(); p.Reason != "MembersUnmatched" || !w.isStrange() {
			t.Fatalf("before a decision: %+v", p)
		}
		offers := w.offered()
		if len(offers) != 1 || offers[0].Choice.Kind != plan.RemoveVoter || offers[0].Choice.Target != "77" || offers[0].Name != "demo-cp-9" {
			t.Fatalf("offered is %+v", offers)
		}
		w.decides(offers[0], "")
		if w.settle(); !w.isStrange() {
			t.Fatal("a decision that admission has not recorded removed a voter")
		}
		old := offers[0]
		old.Choice.Digest = "0123456789abcdef"
		w.decides(old, jane())
		if w.settle(); !w.isStrange() || slices.Contains(w.decisions(), controlplanev1.DecisionPrefix+old.Choice.Digest) {
			t.Fatalf("decided for other facts: the voter is there: %t, left are %v", w.isStrange(), w.decisions())
		}
		w.decides(offers[0], jane())
		if p := w.settle(); w.isStrange() || p.Reason != "AsWanted" || len(w.decisions()) > 0 {
			t.Errorf("decided: the voter is there: %t, left are %v, %+v", w.isStrange(), w.decisions(), p)
		}
		w.turn()
		for _, want := range []string{
			`"decision":"remove-voter 77 demo-cp-9","by":"jane"`, "RemoveMember 77", "DropChoice " + offers[0].Choice.Digest,
		} {
			if got := w.historyText(); !strings.Contains(got, want) {
				t.Errorf("the history has no %q: %s", want, got)
			}
		}
	})
}
