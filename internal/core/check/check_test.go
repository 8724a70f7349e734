package check

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/plan/rows"
)

var update = flag.Bool("update", false, "rewrite what testdata says is refused; read the difference before you keep it")

// TestCheck: what is said of steps, whatever the rules think of them.
func TestCheck(t *testing.T) {
	rows.Answer(t, filepath.Join("testdata", "check.txt"), *update, func(o plan.Observed, asked []string) []string {
		var answers []string
		for _, line := range asked {
			step, _, _ := strings.Cut(line, " -> ")
			verdict := "ok"
			if err := Decision(o, plan.Decision{Step: rows.Step(o, step), Rule: "test", Reason: "Test", Message: "test"}); err != nil {
				verdict = err.Error()
			}
			answers = append(answers, step+" -> "+verdict)
		}
		return answers
	})
}

// TestCheckForm: decisions that nobody could carry out or understand.
func TestCheckForm(t *testing.T) {
	good := plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: "r", Reason: "R", Message: "m"}
	for _, c := range []struct {
		change func(*plan.Decision)
		want   string
	}{
		{func(*plan.Decision) {}, ""},
		{func(d *plan.Decision) { d.Rule = "" }, "Wait has no rule, reason or message"},
		{func(d *plan.Decision) { d.Reason = "" }, "Wait has no rule, reason or message"},
		{func(d *plan.Decision) { d.Message = "" }, "Wait has no rule, reason or message"},
		{func(d *plan.Decision) { d.Step.Verb = "Reboot" }, `"Reboot" is no verb`},
		{func(d *plan.Decision) { d.Step.Verb = plan.Create }, "Create names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.Write }, `Write names the chore ""`},
		{func(d *plan.Decision) { d.Step.Chore = "Addons" }, `Wait names the chore "Addons"`},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.Create, Machine: "m", Repair: true} }, "Create says what is repaired"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.Create, Machine: "m", Retry: 1} }, "Create says what is repaired"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.Create, Machine: "m", Counts: true} },
			"Create says that it counts as a replacement"},
		{func(d *plan.Decision) {
			d.Step = plan.Step{Verb: plan.Delete, Machine: "m", Repair: true, Counts: true}
		}, "Delete says that it counts as a replacement"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.Delete, Machine: "m", Repair: true, Retry: 1} }, "there is no machine m"},
		{func(d *plan.Decision) { d.Step.Verb = plan.EnableDowngrade }, `EnableDowngrade names the version ""`},
		{func(d *plan.Decision) { d.Step.Version = "3.5" }, `Wait names the version "3.5"`},
		{func(d *plan.Decision) { d.Step.Verb = plan.DropChoice }, `DropChoice names the decision ""`},
		{func(d *plan.Decision) { d.Step.Choice = "a1" }, `Wait names the decision "a1"`},
		{func(d *plan.Decision) { d.Step.Verb = plan.Delete }, "Delete names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.ReleaseHook }, "ReleaseHook names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.MoveLeader }, "MoveLeader names no member"},
		{func(d *plan.Decision) { d.Step.Verb = plan.RemoveMember }, "RemoveMember names no member"},
		{func(d *plan.Decision) { d.Step.Init = true }, "Wait says how to create a machine"},
		{func(d *plan.Decision) { d.Step.Hold = true }, "Wait says how to create a machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.StartBootstrap }, "StartBootstrap names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.UpdateInPlace }, "UpdateInPlace names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.RecordUpdate }, "RecordUpdate names no machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.DropUpdate }, "DropUpdate names no machine"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.RecordUpdate, Machine: "m", First: true} },
			"RecordUpdate says that it is the first update"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.UpdateInPlace, Machine: "m", First: true} }, "there is no machine m"},
		{func(d *plan.Decision) { d.Step = plan.Step{Verb: plan.UpdateInPlace, Machine: "m", Init: true} },
			"UpdateInPlace says how to create a machine"},
		{func(d *plan.Decision) { d.Step.Seed = true }, "Wait says how to create a machine"},
		{func(d *plan.Decision) { d.Step.Verb = plan.GiveUp }, "GiveUp names no machine"},
		{func(d *plan.Decision) { d.Step.Domain = "a" }, "Wait says how to create a machine"},
		{func(d *plan.Decision) { d.Step.Number = 1 }, "Wait says how to create a machine"},
	} {
		d := good
		c.change(&d)
		got := ""
		if err := Decision(plan.Observed{}, d); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", fmt.Sprintf("%+v", d), got, c.want)
		}
	}
}

// TestCheckFacts: whatever a step touches, it is refused while facts are missing.
func TestCheckFacts(t *testing.T) {
	spoil := map[string]func(*plan.Observed){
		"unreachable": func(o *plan.Observed) { o.Cluster.Reachable = false },
		"unknown":     func(o *plan.Observed) { o.Etcd.Known = false },
		"split":       func(o *plan.Observed) { o.Etcd.Agreed = false },
	}
	for _, c := range []struct{ state, step string }{
		{"3 | 1 2 3! | 1^ 2", "Create cp-4"},
		{"3 | 1 2 3~9sH | 1^ 2", "StartBootstrap cp-3"},
		{"2 | 1 2 3 | 1^ 2 3", "Delete cp-2"},
		{"3 | 1 2 3!! | 1 2 3^", "MoveLeader e2"},
		{"3 | 1 2 3!! | 1^ 2 3", "RemoveMember e3"},
		{"3 | 1 2 3!! | 1^ 2", "ReleaseHook cp-3"},
		{"3 inplace=Only | 1 2o 3 | 1^ 2 3", "UpdateInPlace cp-2"},
	} {
		o, err := rows.State(c.state)
		if err != nil {
			t.Fatal(err)
		}
		d := plan.Decision{Step: rows.Step(o, c.step), Rule: "test", Reason: "Test", Message: "test"}
		if err := Decision(o, d); err != nil {
			t.Errorf("%s: %s: %v", c.state, c.step, err)
		}
		for name, f := range spoil {
			o, _ := rows.State(c.state)
			o.Etcd.Members = slices.Clone(o.Etcd.Members)
			f(&o)
			if Decision(o, d) == nil {
				t.Errorf("%s, %s: %s is not refused", c.state, name, c.step)
			}
		}
	}
}

// TestAssessAgrees: what Assess calls complete is what is whole here, where nobody knows of it.
func TestAssessAgrees(t *testing.T) {
	rows.Answer(t, "../plan/testdata/next.txt", false, func(o plan.Observed, below []string) []string {
		for i, m := range plan.Assess(o).Machines {
			if m.Complete() && !isWhole(o, o.Machines[i]) {
				t.Errorf("%s is complete to the rules, and not whole to Check", m.Name)
			}
			if m.Complete() != (m.Standing == "Complete") || m.Complete() && m.Why != "" {
				t.Errorf("%s: %+v", m.Name, m)
			}
		}
		return below
	})
}

// TestCheckName verifies that a new machine gets neither the name of a Node nor that of a member.
func TestCheckName(t *testing.T) {
	o := plan.Observed{Machines: []plan.Machine{{Name: "other", Host: "cp-7"}},
		Etcd: plan.Etcd{Members: []plan.Member{{ID: "e8", Name: "cp-8"}}}}
	for name, refused := range map[string]bool{"cp-7": true, "cp-8": true, "cp-9": false} {
		if err := checkName(o, name); (err != nil) != refused {
			t.Errorf("%s: %v, want a refusal: %t", name, err, refused)
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	o, err := rows.State("5/abc | 1a 2b 3c 4a 5b 6c 7a | 1^ 2 3 4 5 6 7")
	if err != nil {
		b.Fatal(err)
	}
	d := plan.Next(o)
	b.ReportAllocs()
	for b.Loop() {
		if err := Decision(o, d); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCheckNames: a recovery begins where members have other names than their machines, and beside a voter that never started.
func TestCheckNames(t *testing.T) {
	o, err := rows.State("3 api- recovery=1,2,3 | 1 2 3 | 1 2x 3x")
	if err != nil {
		t.Fatal(err)
	}
	d := plan.Decision{Step: plan.Step{Verb: plan.BeginRecovery}, Rule: "test", Reason: "Test", Message: "test"}
	o.Etcd.Members[1].Name = "host-2"
	if err := Decision(o, d); err != nil {
		t.Errorf("other names: %v", err)
	}
	o.Etcd.Members[2].Name, o.Etcd.Members[2].Machine = "", ""
	if err := Decision(o, d); err != nil {
		t.Errorf("a voter that never started: %v", err)
	}
}

// TestCheckForgotten: a machine is forgotten by the decision about it alone, with the digest of its own facts.
func TestCheckForgotten(t *testing.T) {
	o, err := rows.State("3 | 1J!- 2o 3 4 | 2^ 3 4")
	if err != nil {
		t.Fatal(err)
	}
	right := plan.ChoiceDigest(o, plan.ForgetMachine, "cp-1")
	creates := plan.Decision{Step: plan.Step{Verb: plan.Create, Machine: "cp-5"}, Rule: "test", Reason: "Test", Message: "test"}
	for name, test := range map[string]struct {
		choice plan.Choice
		ok     bool
	}{
		"the right one":   {plan.Choice{Kind: plan.ForgetMachine, Target: "cp-1", Digest: right}, true},
		"of another kind": {plan.Choice{Kind: plan.RemoveVoter, Target: "cp-1", Digest: right}, false},
		"about another":   {plan.Choice{Kind: plan.ForgetMachine, Target: "cp-2", Digest: right}, false},
		"of other facts":  {plan.Choice{Kind: plan.ForgetMachine, Target: "cp-1", Digest: "a1"}, false},
	} {
		o.Choices = []plan.Choice{test.choice}
		if err := Decision(o, creates); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.Choices, o.Machines[0].Created = []plan.Choice{{Kind: plan.ForgetMachine, Target: "cp-1", Digest: right}}, o.Now
	if err := Decision(o, creates); err == nil {
		t.Error("another machine of that name is forgotten")
	}
}

// TestCheckChoices: a decision counts for what it names, whatever its digest is that of.
func TestCheckChoices(t *testing.T) {
	o, err := rows.State("3 | 1 2 3 | 1^ 2 3 4")
	if err != nil {
		t.Fatal(err)
	}
	right := plan.ChoiceDigest(o, plan.RemoveVoter, "e4")
	removes := plan.Step{Verb: plan.RemoveMember, Member: "e4"}
	none := plan.ChoiceDigest(o, plan.RemoveVoter, "")
	for name, test := range map[string]struct {
		choice plan.Choice
		step   plan.Step
		ok     bool
	}{
		"the right one":         {plan.Choice{Kind: plan.RemoveVoter, Target: "e4", Digest: right}, removes, true},
		"of another kind":       {plan.Choice{Kind: "reboot", Target: "e4", Digest: right}, removes, false},
		"about another":         {plan.Choice{Kind: plan.RemoveVoter, Target: "e3", Digest: right}, removes, false},
		"about nobody, dropped": {plan.Choice{Kind: plan.RemoveVoter, Digest: none}, plan.Step{Verb: plan.DropChoice, Choice: none}, true},
		"the right one, dropped": {
			plan.Choice{Kind: plan.RemoveVoter, Target: "e4", Digest: right}, plan.Step{Verb: plan.DropChoice, Choice: right}, false,
		},
	} {
		o.Choices = []plan.Choice{test.choice}
		err := Decision(o, plan.Decision{Step: test.step, Rule: "test", Reason: "Test", Message: "test"})
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
