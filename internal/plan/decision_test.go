package plan

import "testing"

// TestSteps: what each kind of step is, to whoever carries it out.
func TestSteps(t *testing.T) {
	type kind struct{ acts, quorum, keys bool }
	for verb, want := range map[Verb]kind{
		Nothing: {}, Wait: {},
		Generate: {acts: true, keys: true}, WriteKubeconfig: {acts: true, keys: true},
		WriteKubeadm: {acts: true}, WritePermissions: {acts: true}, UpdateAddons: {acts: true},
		Create: {acts: true}, Adopt: {acts: true}, ReleaseHook: {acts: true}, Finish: {acts: true},
		Delete: {acts: true, quorum: true}, MoveLeader: {acts: true, quorum: true}, RemoveMember: {acts: true, quorum: true},
	} {
		s := Step{Verb: verb}
		if got := (kind{s.Acts(), s.ChangesQuorum(), s.MakesKeys()}); got != want {
			t.Errorf("%s is %+v, not %+v", verb, got, want)
		}
	}
}
