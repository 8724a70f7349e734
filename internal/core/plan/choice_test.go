package plan_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/plan/rows"
)

// TestRulesOffer: what a person can choose, and where nothing is offered.
func TestRulesOffer(t *testing.T) {
	offers := func(line string, change func(*plan.Observed)) []plan.Offer {
		t.Helper()
		o, err := rows.State(line)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&o)
		}
		return plan.Offers(o)
	}
	const lost = "3 | 1 2 3 | 1^ 2 3 4"
	is := offers(lost, nil)
	if len(is) != 1 || is[0].Choice.Kind != plan.RemoveVoter || is[0].Choice.Target != "e4" || is[0].Chosen || is[0].Against != "" {
		t.Fatalf("%+v", is)
	}
	want := "etcd member e4 (cp-4) is removed for good, and 3 voters stay; its etcd ends, and with it an API server beside it. " +
		"Then end its host and delete its Node yourself"
	if is[0].Effect != want {
		t.Errorf("%s\nwant %s", is[0].Effect, want)
	}
	for name, none := range map[string][]plan.Offer{
		"deleted":       offers("3 deleting | 1 2 3 | 1^ 2 3 4", nil),
		"unreachable":   offers("3 api- | 1 2 3 | 1^ 2 3 4", nil),
		"not known":     offers("3 etcd- | 1 2 3 | 1^ 2 3 4", nil),
		"an operator's": offers(lost, func(o *plan.Observed) { o.Etcd.Owner = plan.EtcdOperator }),
		"nothing lost":  offers("3 | 1 2 3 | 1^ 2 3", nil),
	} {
		if len(none) > 0 {
			t.Errorf("%s: %+v", name, none)
		}
	}
}

// TestRulesOfForgetting: a machine can be forgotten once it holds nothing back, by a choice that is about this very machine.
func TestRulesOfForgetting(t *testing.T) {
	offers := func(line string) []plan.Offer {
		t.Helper()
		o, err := rows.State(line)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Offers(o)
	}
	for _, chosen := range []string{"", "forgotten=1 "} {
		is := offers("3 " + chosen + "| 1J!- 2 3 | 2^ 3")
		if len(is) != 1 || is[0].Choice.Kind != plan.ForgetMachine || is[0].Choice.Target != "cp-1" || is[0].Name != "cp-1" ||
			is[0].Reason != "MachineDeleting" || is[0].Chosen != (chosen != "") {
			t.Fatalf("%q: %+v", chosen, is)
		}
	}
	if is := offers("3 external | 1J!- 2 3 |"); len(is) != 1 || is[0].Choice.Kind != plan.ForgetMachine {
		t.Errorf("with external etcd: %+v", is)
	}
	for _, none := range []string{
		"3 | 1 2 3 | 1^ 2 3", "3 | 1J! 2 3 | 2^ 3", "3 | 1J!- 2 3 | 1 2^ 3", "3 | 1~5m!- 2 | 2^ 9p", "3 deleting | 1J!- 2 3 | 2^ 3",
		"3 api- | 1J!- 2 3 | 2^ 3", "3 | 1O!- 2 3 | 2^ 3", "3 new | 1J!- |", "3 new external | 1J!- |",
	} {
		if is := offers(none); len(is) > 0 {
			t.Errorf("%s: %+v", none, is)
		}
	}
	o, err := rows.State("3 forgotten=1 | 1J!- 2 3 | 2^ 3")
	if err != nil {
		t.Fatal(err)
	}
	if a := plan.Assess(o); a.Machine("cp-1").Standing == "" || a.Settled {
		t.Errorf("the assessment lacks a machine that a person decided not to wait for: %+v", a)
	}
	o.Machines[0].Created = o.Machines[0].Created.Add(time.Second)
	if d := plan.Next(o); d.Step.Verb != plan.DropChoice || d.Reason != "DecisionStale" {
		t.Errorf("another machine of that name: %v", d)
	}
}

// TestRulesOfNames: a recovery begins where members have other names than their machines, and not beside a voter without a name of its own
// machine.
func TestRulesOfNames(t *testing.T) {
	o, err := rows.State("3 api- recovery=1,2,3 | 1 2 3 | 1 2x 3x")
	if err != nil {
		t.Fatal(err)
	}
	o.Etcd.Members[1].Name = "host-2"
	if d := plan.Next(o); d.Step.Verb != plan.BeginRecovery {
		t.Errorf("other names: %v", d)
	}
	o.Etcd.Members[2].Name, o.Etcd.Members[2].Machine = "", ""
	if d := plan.Next(o); d.Step.Verb != plan.BeginRecovery {
		t.Errorf("a voter that never started: %v", d)
	}
}
