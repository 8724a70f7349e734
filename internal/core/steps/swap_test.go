package steps

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSwap: the phases in their order, forward and back.
func TestSwap(t *testing.T) {
	j := Journal{}.Resumed()
	var seen []string
	for !j.Phase.Over() {
		seen = append(seen, string(j.Phase))
		j = j.Done()
	}
	if got := strings.Join(seen, " "); got != "Preparing Stopping Replacing Starting Proving" || j.Phase != Committed {
		t.Errorf("%s, then %s", got, j.Phase)
	}
	if !reflect.DeepEqual(j.Done(), j) || !reflect.DeepEqual(j.Failed("x"), j) || !reflect.DeepEqual(j.Resumed(), j) {
		t.Error("what is over goes on")
	}
}

// TestSwapFails: what was not interrupted is abandoned; all else is put back, and the first reason is kept.
func TestSwapFails(t *testing.T) {
	for phase, want := range map[Phase]Phase{
		"": Abandoned, Preparing: Abandoned, Stopping: Reverting, Replacing: Reverting, Starting: Reverting, Proving: Reverting,
		Reverting: Reverting, Restarting: Restarting, RestoringData: RestoringData,
		Committed: Committed, Reverted: Reverted, Abandoned: Abandoned, Broken: Broken,
	} {
		if got := (Journal{Phase: phase}).Failed("x").Phase; got != want {
			t.Errorf("%q fails: %s, want %s", phase, got, want)
		}
	}
	j := Journal{Phase: Proving, Starts: 3}.Failed("first")
	if j.Starts != 0 || j.Failed("second").Reason != "first" {
		t.Errorf("%+v", j)
	}
	if j = j.Done().Done(); j.Phase != Reverted || j.Outcome().State != RolledBack || j.Outcome().Message != "first" {
		t.Errorf("%+v", j)
	}
}

// TestResumed: an upgrade that is cut off again and again goes back, and a way back that is cut off again and again ends.
func TestResumed(t *testing.T) {
	j := Journal{Phase: Proving}
	for range mostStarts {
		if j = j.Resumed(); j.Phase != Proving {
			t.Fatalf("%+v", j)
		}
	}
	if j = j.Resumed(); j.Phase != Reverting || !strings.Contains(j.Reason, "interrupted") {
		t.Fatalf("%+v", j)
	}
	for range mostStarts {
		if j = j.Resumed(); j.Phase != Reverting {
			t.Fatalf("%+v", j)
		}
	}
	if j = j.Resumed(); j.Phase != Broken || j.Outcome().State != Failed {
		t.Errorf("%+v", j)
	}
}

// TestResumedAfterARestart: with the node its kubelet is started, of whatever version; it is stopped before files are replaced.
func TestResumedAfterARestart(t *testing.T) {
	for phase, want := range map[Phase]Phase{
		"": Preparing, Preparing: Preparing, Stopping: Stopping, Replacing: Stopping, Starting: Stopping, Proving: Proving,
		Reverting: Reverting, Restarting: Reverting, RestoringData: RestoringData, Committed: Committed, Reverted: Reverted,
	} {
		if got := (Journal{Phase: phase}).Resumed().Phase; got != want {
			t.Errorf("%q goes on with %s, want %s", phase, got, want)
		}
	}
}

// TestNotServing: the snapshot is used once, for the only member, and only when that does not serve.
func TestNotServing(t *testing.T) {
	for name, test := range map[string]struct {
		only, serves, restored bool
		want                   Phase
	}{
		"the only member is down":               {true, false, false, RestoringData},
		"it serves, something else does not":    {true, true, false, Broken},
		"others keep the data":                  {false, false, false, Broken},
		"the snapshot did not help":             {true, false, true, Broken},
		"others serve, something else does not": {false, true, false, Broken},
	} {
		j := Journal{Phase: Restarting, Reason: "first", DataRestored: test.restored, OnlyMember: test.only}.NotServing(test.serves, "second")
		if j.Phase != test.want {
			t.Errorf("%s: %s, want %s", name, j.Phase, test.want)
		}
		if j.Phase == Broken && j.Reason != "first; and going back: second" {
			t.Errorf("%s: %s", name, j.Reason)
		}
		if j.Phase == RestoringData && (!j.DataRestored || j.Done().Phase != Restarting) {
			t.Errorf("%s: %+v", name, j)
		}
	}
	if got := (Journal{Phase: Reverted, DataRestored: true}).Outcome(); !strings.Contains(got.Advice, "snapshot") {
		t.Errorf("%+v", got)
	}
}

// TestGivenArgs: whoever comes next knows which arguments the kubelet has from upgrades, also where nobody heard how the last one ended.
func TestGivenArgs(t *testing.T) {
	told := func(id string, names ...string) Wanted {
		w := Wanted{ID: id, Attempt: 2}
		for _, name := range names {
			w.Kubelet.ExtraArgs = append(w.Kubelet.ExtraArgs, Argument{Name: name})
		}
		return w
	}
	for name, test := range map[string]struct {
		has  Journal
		want string
	}{
		"nothing before":                 {Journal{}, ""},
		"it stayed":                      {Journal{Wanted: told("a", "v", "a", "v"), Phase: Committed, KubeletArgs: []string{"gone"}}, "a v"},
		"it stayed, with none":           {Journal{Wanted: told("a"), Phase: Committed, KubeletArgs: []string{"b"}}, "b"},
		"put back":                       {Journal{Wanted: told("a", "v"), Phase: Reverted, KubeletArgs: []string{"b"}}, "b"},
		"not begun":                      {Journal{Wanted: told("a", "v"), KubeletArgs: []string{"b"}}, "b"},
		"put back, and the same again":   {Journal{Wanted: told("next", "v"), Phase: Reverted, Reported: 1, KubeletArgs: []string{"b"}}, "b"},
		"the same, at work":              {Journal{Wanted: told("next", "v"), Phase: Proving, KubeletArgs: []string{"b"}}, "b"},
		"the same, and its swap is over": {Journal{Wanted: told("next", "v"), Phase: Committed, KubeletArgs: []string{"b"}}, "b"},
	} {
		got, err := test.has.Take(told("next", "v"))
		if strings.Join(got.KubeletArgs, " ") != test.want || err != nil {
			t.Errorf("%s: %v, %v; want %s", name, got.KubeletArgs, err, test.want)
		}
	}
}

// TestTake: which swap goes on, which begins again, and which must wait.
func TestTake(t *testing.T) {
	for name, test := range map[string]struct {
		has   Journal
		fresh bool
		err   string
	}{
		"nothing before":                 {Journal{}, true, ""},
		"another one under way":          {Journal{Wanted: Wanted{ID: "b"}, Phase: Proving}, false, "another upgrade"},
		"another one not begun":          {Journal{Wanted: Wanted{ID: "b"}}, true, ""},
		"another one, over":              {Journal{Wanted: Wanted{ID: "b"}, Phase: Committed}, true, ""},
		"cut off":                        {Journal{Wanted: Wanted{ID: "a"}, Phase: Proving}, false, ""},
		"done":                           {Journal{Wanted: Wanted{ID: "a"}, Phase: Committed}, false, ""},
		"done, reported":                 {Journal{Wanted: Wanted{ID: "a"}, Phase: Committed, Reported: 1}, false, ""},
		"rolled back, not reported":      {Journal{Wanted: Wanted{ID: "a"}, Phase: Reverted}, false, ""},
		"rolled back, reported by us":    {Journal{Wanted: Wanted{ID: "a"}, Phase: Reverted, Reported: 2}, false, ""},
		"rolled back, reported before":   {Journal{Wanted: Wanted{ID: "a"}, Phase: Reverted, Reported: 1}, true, ""},
		"abandoned, reported before":     {Journal{Wanted: Wanted{ID: "a"}, Phase: Abandoned, Reported: 1}, true, ""},
		"broken, reported before":        {Journal{Wanted: Wanted{ID: "a"}, Phase: Broken, Reported: 1}, true, ""},
		"going back, reported by nobody": {Journal{Wanted: Wanted{ID: "a"}, Phase: Reverting}, false, ""},
	} {
		wanted := Wanted{ID: "a", Attempt: 2, KubernetesVersion: "v1.36.3"}
		got, err := test.has.Take(wanted)
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil && (got.Phase == "" != test.fresh || !reflect.DeepEqual(got.Wanted, wanted)) {
			t.Errorf("%s: %+v", name, got)
		}
		if test.fresh && got.Begun() {
			t.Errorf("%s: it begins anew, and has begun", name)
		}
	}
}

// TestUndo: the failure of which step, in which phase, puts a node back that was swapped.
func TestUndo(t *testing.T) {
	undone := map[Name]bool{Finish: true, Verify: true}
	for _, s := range All() {
		if s.Name == Swap {
			continue // its own phases say so
		}
		j, ok := Journal{Phase: Committed, Starts: 3}.Undo(s.Name, "the reason")
		if ok != undone[s.Name] {
			t.Errorf("%s fails: undone %t", s.Name, ok)
		}
		if want := (Journal{Phase: Reverting, FailedStep: s.Name, Reason: "the reason"}); ok && !reflect.DeepEqual(j, want) {
			t.Errorf("%s fails: %+v", s.Name, j)
		}
	}
	for name, j := range map[string]Journal{
		"the backup is gone": {Phase: Committed, Verified: true}, "it was put back": {Phase: Reverted}, "it is under way": {Phase: Reverting},
		"neither serves": {Phase: Broken}, "it has not begun": {},
	} {
		if got, ok := j.Undo(Verify, "x"); ok || !reflect.DeepEqual(got, j) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, ok := (Journal{Phase: Committed}).Undo("Other", "x"); ok {
		t.Error("a step that is not known is undone")
	}
}

// TestUndone: who comes after a cut goes on with the way back, and who comes after the report begins again.
func TestUndone(t *testing.T) {
	j, _ := Journal{Wanted: Wanted{ID: "a", Attempt: 1}, Phase: Committed}.Undo(Verify, "not ready")
	next, err := j.Take(Wanted{ID: "a", Attempt: 2})
	if err != nil || next.Phase != Reverting || next.FailedStep != Verify {
		t.Errorf("%+v, %v", next, err)
	}
	if _, err := j.Take(Wanted{ID: "b", Attempt: 1}); err == nil {
		t.Error("another upgrade begins while the node is put back")
	}
	next = next.Resumed().Done().Done()
	if got := next.Outcome(); next.Phase != Reverted || got.State != RolledBack || got.FailedStep != Verify || got.Message != "not ready" ||
		!strings.Contains(got.Advice, "kept its data") {
		t.Errorf("%+v", got)
	}
	next.Reported = 2
	if again, err := next.Take(Wanted{ID: "a", Attempt: 3}); err != nil || again.Begun() || again.FailedStep != "" {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestUndoneData: where the new version has served, its etcd is kept before any of its data is left out, and the snapshot is the last thing
// tried.
func TestUndoneData(t *testing.T) {
	j := Journal{Phase: Restarting, FailedStep: Finish, Reason: "first", OnlyMember: true, Wanted: Wanted{StackedEtcd: true}}
	if got := j.NotServing(true, "second"); got.Phase != Broken || got.DataRestored || got.EtcdKept {
		t.Errorf("etcd serves: %+v", got)
	}
	external := j
	external.Wanted.StackedEtcd, external.OnlyMember = false, false
	if got := external.NotServing(false, "second"); got.Phase != Broken {
		t.Errorf("external etcd: %+v", got)
	}
	j = j.NotServing(false, "second")
	if j.Phase != Reverting || !j.KeepsEtcd() || j.DataRestored {
		t.Fatalf("%+v", j)
	}
	if got := j.Done().Done().Outcome(); got.State != RolledBack || !strings.Contains(got.Advice, "stays at its new version") {
		t.Errorf("%+v", got)
	}
	others := j.Done()
	others.OnlyMember = false
	if got := others.NotServing(false, "third"); got.Phase != Broken {
		t.Errorf("others keep the data: %+v", got)
	}
	j = j.Done().NotServing(false, "third")
	if j.Phase != RestoringData || j.KeepsEtcd() {
		t.Fatalf("%+v", j)
	}
	if got := j.Done().Done().Outcome(); !strings.Contains(got.Advice, "snapshot") || !strings.Contains(got.Advice, "kept beside") {
		t.Errorf("%+v", got)
	}
	if got := j.Done().NotServing(false, "fourth"); got.Phase != Broken || got.Outcome().FailedStep != Finish {
		t.Errorf("%+v", got)
	}
}

// TestLimits: a step that is undone when it fails has the time for that too: its own deadline, and that of the old version.
func TestLimits(t *testing.T) {
	w := Wanted{VerifyTimeoutSeconds: 300}
	for _, s := range All() {
		if s.Undo == UndoRestore && w.Limit(s.Name) < 10*time.Minute {
			t.Errorf("%s may take %s, and is cut off while the old version is awaited", s.Name, w.Limit(s.Name))
		}
	}
}
