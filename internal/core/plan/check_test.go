package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCheck: what Check says of steps, whatever the rules think of them.
func TestCheck(t *testing.T) {
	rows(t, "check.txt", func(o Observed, asked []string) []string {
		var answers []string
		for _, line := range asked {
			step, _, _ := strings.Cut(line, " -> ")
			verdict := "ok"
			if err := Check(o, Decision{Step: parseStep(o, step), Rule: "test", Reason: "Test", Message: "test"}); err != nil {
				verdict = err.Error()
			}
			answers = append(answers, step+" -> "+verdict)
		}
		return answers
	})
}

func parseStep(o Observed, text string) Step {
	words := strings.Fields(text)
	s := Step{Verb: Verb(words[0])}
	if chore, is := strings.CutPrefix(words[0], string(Write)); is {
		s = Step{Verb: Write, Chore: chore}
	}
	for i, w := range words[1:] {
		switch {
		case s.Verb == EnableDowngrade:
			s.Version = w
		case s.Verb == DropChoice && w == "it":
			s.Choice = o.Choices[0].Digest
		case s.Verb == DropChoice:
			s.Choice = w
		case i == 0 && strings.HasPrefix(w, "e"):
			s.Member = w
		case i == 0:
			s.Machine = w
		case w == "first" && s.Verb == UpdateInPlace:
			s.First = true
		case w == "counted":
			s.Counts = true
		case w == "first":
			s.Init = true
		case w == "seed":
			s.Seed = true
		case w == "ahead":
			s.Hold = true
		default:
			s.Domain = strings.TrimPrefix(w, "in")
		}
	}
	return s
}

// TestCheckForm: decisions that nobody could carry out or understand.
func TestCheckForm(t *testing.T) {
	good := Decision{Step: Step{Verb: Wait}, Rule: "r", Reason: "R", Message: "m"}
	for _, c := range []struct {
		change func(*Decision)
		want   string
	}{
		{func(*Decision) {}, ""},
		{func(d *Decision) { d.Rule = "" }, "Wait has no rule, reason or message"},
		{func(d *Decision) { d.Reason = "" }, "Wait has no rule, reason or message"},
		{func(d *Decision) { d.Message = "" }, "Wait has no rule, reason or message"},
		{func(d *Decision) { d.Step.Verb = "Reboot" }, `"Reboot" is no verb`},
		{func(d *Decision) { d.Step.Verb = Create }, "Create names no machine"},
		{func(d *Decision) { d.Step.Verb = Write }, `Write names the chore ""`},
		{func(d *Decision) { d.Step.Chore = "Addons" }, `Wait names the chore "Addons"`},
		{func(d *Decision) { d.Step = Step{Verb: Create, Machine: "m", Repair: true} }, "Create says what is repaired"},
		{func(d *Decision) { d.Step = Step{Verb: Create, Machine: "m", Retry: 1} }, "Create says what is repaired"},
		{func(d *Decision) { d.Step = Step{Verb: Create, Machine: "m", Counts: true} }, "Create says that it counts as a replacement"},
		{func(d *Decision) { d.Step = Step{Verb: Delete, Machine: "m", Repair: true, Counts: true} }, "Delete says that it counts as a replacement"},
		{func(d *Decision) { d.Step = Step{Verb: Delete, Machine: "m", Repair: true, Retry: 1} }, "there is no machine m"},
		{func(d *Decision) { d.Step.Verb = EnableDowngrade }, `EnableDowngrade names the version ""`},
		{func(d *Decision) { d.Step.Version = "3.5" }, `Wait names the version "3.5"`},
		{func(d *Decision) { d.Step.Verb = DropChoice }, `DropChoice names the decision ""`},
		{func(d *Decision) { d.Step.Choice = "a1" }, `Wait names the decision "a1"`},
		{func(d *Decision) { d.Step.Verb = Delete }, "Delete names no machine"},
		{func(d *Decision) { d.Step.Verb = ReleaseHook }, "ReleaseHook names no machine"},
		{func(d *Decision) { d.Step.Verb = MoveLeader }, "MoveLeader names no member"},
		{func(d *Decision) { d.Step.Verb = RemoveMember }, "RemoveMember names no member"},
		{func(d *Decision) { d.Step.Init = true }, "Wait says how to create a machine"},
		{func(d *Decision) { d.Step.Hold = true }, "Wait says how to create a machine"},
		{func(d *Decision) { d.Step.Verb = StartBootstrap }, "StartBootstrap names no machine"},
		{func(d *Decision) { d.Step.Verb = UpdateInPlace }, "UpdateInPlace names no machine"},
		{func(d *Decision) { d.Step.Verb = RecordUpdate }, "RecordUpdate names no machine"},
		{func(d *Decision) { d.Step.Verb = DropUpdate }, "DropUpdate names no machine"},
		{func(d *Decision) { d.Step = Step{Verb: RecordUpdate, Machine: "m", First: true} }, "RecordUpdate says that it is the first update"},
		{func(d *Decision) { d.Step = Step{Verb: UpdateInPlace, Machine: "m", First: true} }, "there is no machine m"},
		{func(d *Decision) { d.Step = Step{Verb: UpdateInPlace, Machine: "m", Init: true} }, "UpdateInPlace says how to create a machine"},
		{func(d *Decision) { d.Step.Seed = true }, "Wait says how to create a machine"},
		{func(d *Decision) { d.Step.Verb = GiveUp }, "GiveUp names no machine"},
		{func(d *Decision) { d.Step.Domain = "a" }, "Wait says how to create a machine"},
		{func(d *Decision) { d.Step.Number = 1 }, "Wait says how to create a machine"},
	} {
		d := good
		c.change(&d)
		got := ""
		if err := Check(Observed{}, d); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", fmt.Sprintf("%+v", d), got, c.want)
		}
	}
}

// TestCheckFacts: whatever a step touches, it is refused while facts are missing.
func TestCheckFacts(t *testing.T) {
	spoil := map[string]func(*Observed){
		"unreachable": func(o *Observed) { o.Cluster.Reachable = false },
		"unknown":     func(o *Observed) { o.Etcd.Known = false },
		"split":       func(o *Observed) { o.Etcd.Agreed = false },
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
		o, err := parse(c.state)
		if err != nil {
			t.Fatal(err)
		}
		d := Decision{Step: parseStep(o, c.step), Rule: "test", Reason: "Test", Message: "test"}
		if err := Check(o, d); err != nil {
			t.Errorf("%s: %s: %v", c.state, c.step, err)
		}
		for name, f := range spoil {
			o, _ := parse(c.state)
			o.Etcd.Members = slices.Clone(o.Etcd.Members)
			f(&o)
			if Check(o, d) == nil {
				t.Errorf("%s, %s: %s is not refused", c.state, name, c.step)
			}
		}
	}
}
