package plan

import "testing"

// TestRulesOfNames verifies that each kind of fact that has a name counts as used: in the number that is recorded, and in the next name.
func TestRulesOfNames(t *testing.T) {
	for name, use := range map[string]func(*Observed){
		"a Machine":           func(o *Observed) { o.Machines = append(o.Machines, Machine{Name: "cp-7"}) },
		"a Node of a Machine": func(o *Observed) { o.Machines = append(o.Machines, Machine{Name: "other", Host: "cp-7"}) },
		"a Node":              func(o *Observed) { o.Cluster.Names = []string{"cp-7"} },
		"a worker":            func(o *Observed) { o.Workers = []string{"cp-7"} },
		"a machine of others": func(o *Observed) { o.Uncontrolled = []UncontrolledMachine{{Name: "cp-7"}} },
		"a member":            func(o *Observed) { o.Etcd.Members = []Member{{ID: "e7", Name: "cp-7"}} },
	} {
		o := Observed{Want: Want{NameFormat: "cp-%s"}, Group: Group{LastMachine: 3}}
		use(&o)
		if got := HighestNumber(o); got != 7 {
			t.Errorf("%s: the highest number is %d, want 7", name, got)
		}
		if step := newState(o).create(); step.Machine != "cp-8" {
			t.Errorf("%s: the next machine is %s, want cp-8", name, step.Machine)
		}
		o.Group.PartialCreate = "cp-7"
		if step := newState(o).create(); step.Machine != "cp-8" {
			t.Errorf("%s: %s is finished under a name that is used", name, step.Machine)
		}
	}
}

// TestRulesOfNewNames verifies that the search for a name goes past numbers that do not count, and ends: also where all names that it tries
// are in use.
func TestRulesOfNewNames(t *testing.T) {
	o := Observed{Want: Want{NameFormat: "cp-%s"}, Group: Group{LastMachine: 99999}, Workers: []string{"cp-100000", "cp-100001"}}
	if step := newState(o).create(); step.Machine != "cp-100002" {
		t.Errorf("the next machine is %s, want cp-100002", step.Machine)
	}
	o = Observed{Want: Want{NameFormat: "cp"}, Workers: []string{"cp", "cp%!(EXTRA string=1)"}}
	if step := newState(o).create(); step.Machine == "" {
		t.Error("a format without a number has no name")
	}
}

// TestAssessPlaceholder verifies that a placeholder is reported as one, and not as a member that joins.
func TestAssessPlaceholder(t *testing.T) {
	a := assessMember(Member{ID: "e9", Learner: true, Placeholder: true})
	const why = "is a placeholder: no machine can join while one that hangs in its bootstrap is being deleted"
	if a.Fault != FaultJoining || a.Why != why {
		t.Errorf("%+v", a)
	}
}

// TestRulesOfNumbers verifies which names have a number, and which numbers count.
func TestRulesOfNumbers(t *testing.T) {
	for number, want := range map[int]bool{-1: false, 0: false, 1: true, 99999: true, 100000: false} {
		if got := Counts(number); got != want {
			t.Errorf("%d counts: %t, want %t", number, got, want)
		}
	}
	for name, want := range map[string]int{"cp-7": 7, "cp-": 0, "cp-x": 0, "other-7": 0, "cp-99999999999999999999": 0} {
		if got := Number("cp-%s", name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
