package plan

import "testing"

// TestSteps: what each kind of step is, to whoever carries it out.
func TestSteps(t *testing.T) {
	type kind struct{ acts, quorum bool }
	for verb, want := range map[Verb]kind{
		Nothing: {}, Wait: {},
		Write:  {acts: true},
		Create: {acts: true}, Adopt: {acts: true}, ReleaseHook: {acts: true}, Finish: {acts: true},
		Delete: {acts: true, quorum: true}, MoveLeader: {acts: true, quorum: true}, RemoveMember: {acts: true, quorum: true},
		PromoteMember: {acts: true, quorum: true},
		UpdateInPlace: {acts: true, quorum: true}, RecordUpdate: {acts: true}, DropUpdate: {acts: true},
		EnableDowngrade: {acts: true, quorum: true}, CancelDowngrade: {acts: true, quorum: true},
		RequestBackup: {acts: true},
	} {
		s := Step{Verb: verb}
		if got := (kind{s.Acts(), s.ChangesQuorum()}); got != want {
			t.Errorf("%s is %+v, not %+v", verb, got, want)
		}
	}
}

// TestMakesKeys: a chore outside the managed cluster is a secret with a private key.
func TestMakesKeys(t *testing.T) {
	o := Observed{Cluster: Cluster{Chores: []Chore{{Name: "Addons", Inside: true}, {Name: "Kubeconfig"}}}}
	for step, want := range map[Step]bool{
		{Verb: Write, Chore: "Kubeconfig"}: true, {Verb: Write, Chore: "Addons"}: false, {Verb: Write, Chore: "Other"}: false,
		{Verb: Create, Machine: "m"}: false,
	} {
		if got := o.MakesKeys(step); got != want {
			t.Errorf("%s makes keys: %t, not %t", step, got, want)
		}
	}
}
