package judge

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

const (
	seeds = 20
	limit = 20 * time.Second
)

// right are histories in which nothing is wrong.
var right = map[string]func(w *world){
	"nothing happens": func(w *world) { w.run(600) },
	"answers are lost": func(w *world) {
		w.lost = 0.2
		w.run(600)
	},
	"servers restart": func(w *world) {
		for range 6 {
			w.run(100)
			w.now += 5 * second // no answer comes
			w.watchAgain()
		}
	},
	"a recovery, and one 410": func(w *world) {
		w.lost = 0.1
		w.run(300)
		w.recovered(1_000_000)
		w.gone()
		w.run(300)
	},
	"a recovery that lost nothing": func(w *world) {
		w.run(300)
		w.now += second
		w.recover(w.data, w.now, 1_000_000)
		w.gone()
		w.run(300)
	},
}

// recovered is a recovery from what was there some operations ago.
func (w *world) recovered(raised int64) {
	kept, at := w.data.clone(), w.now+second/20
	w.now += second
	w.run(40)
	w.tell(w.now)
	w.now += second
	w.recover(kept, at, raised)
}

// sabotages are histories in which something is wrong, and the rules of which at least one must find it.
var sabotages = map[string]struct {
	do    func(w *world)
	rules []Rule
}{
	"an API server on an old etcd": {func(w *world) {
		w.run(200)
		w.other = w.data.clone()
		w.run(30)
		w.other.revision++ // others write there too
		w.run(200)
	}, []Rule{Linear}},
	"an API server on an etcd that only reads old data": {func(w *world) {
		w.run(200)
		frozen := w.data.clone()
		w.run(200)
		w.other = frozen
		w.get("client-1", fmt.Sprint(SwapPrefix, 1, "-0"))
		for range 60 {
			w.now += second / 50
			w.get("client-2", fmt.Sprint(SwapPrefix, 1, "-", w.r.IntN(3)))
		}
		w.other = nil
		w.run(100)
	}, []Rule{Linear}},
	"a restore without the bump": {func(w *world) {
		w.run(300)
		w.recovered(0)
		w.gone()
		w.run(300)
	}, []Rule{Bump}},
	"two clusters alive behind one endpoint": {func(w *world) {
		w.run(200)
		w.other = w.data.clone()
		w.run(200)
		w.other = nil
	}, []Rule{Linear}},
	"a lost tail": {func(w *world) {
		w.run(300)
		kept := w.data.clone()
		w.run(20)
		w.tell(w.now)
		w.now += second
		kept.revision = w.data.revision
		w.data = kept
		w.run(300)
	}, []Rule{Linear, Lost}},
	"a tail that is lost in the end": {func(w *world) {
		w.run(300)
		kept := w.data.clone()
		w.run(20)
		w.tell(w.now)
		w.now += second
		kept.revision = w.data.revision
		w.data = kept
	}, []Rule{Lost}},
	"a recovery that lost more than it said": {func(w *world) {
		w.run(300)
		kept := w.data.clone()
		w.now += second
		w.run(40)
		w.now += second
		w.recover(kept, w.now, 1_000_000)
		w.gone()
		w.run(100)
	}, []Rule{Linear, Lost}},
	"stale reads": {func(w *world) {
		w.run(100)
		w.old = true
		w.run(500)
	}, []Rule{Linear}},
	"a stale list": {func(w *world) {
		w.run(300)
		w.now += second
		now := w.data
		w.data = w.past[0]
		w.list("client-1", "cas-none")
		w.data = now
		w.run(100)
	}, []Rule{Stale}},
	"a lease taken twice": {func(w *world) {
		w.run(300)
		w.takeLease(3 * second)
		w.run(300)
	}, []Rule{Holders}},
	"a lease that is held to the end and taken": {func(w *world) {
		w.run(300)
		w.add(history.Entry{Kind: history.Hold, Client: "holder-9", Object: "held", Begin: w.now, Outcome: history.OK})
		w.run(2000)
	}, []Rule{Holders}},
	"a watch that drops an event": {func(w *world) {
		w.run(300)
		w.drop = true
		w.run(300)
	}, []Rule{Gap}},
	"a watch that drops the last event": {func(w *world) {
		w.run(300)
		w.tell(w.now)
		w.swap("client-1", "cas-last")
		w.drop = true
	}, []Rule{Behind, Gap}},
	"a watch that tells an event twice": {func(w *world) {
		w.run(300)
		w.tells = append(w.tells, told{w.event(1), w.now})
		w.run(300)
	}, []Rule{Duplicate}},
	"a watch that goes back": {func(w *world) {
		w.run(300)
		w.tells = append(w.tells, told{history.Item{Object: "cas-0-0", Value: "x", Revision: 99}, w.now})
		w.run(300)
	}, []Rule{Back}},
	"a watch whose revision is gone": {func(w *world) {
		w.run(300)
		w.gone()
		w.run(300)
	}, []Rule{Gone}},
	"a watch whose revision is gone twice after a recovery": {func(w *world) {
		w.run(300)
		w.recovered(1_000_000)
		w.gone()
		w.run(100)
		w.gone()
		w.run(100)
	}, []Rule{Gone}},
	"members that differ": {func(w *world) {
		w.run(300)
		w.add(history.Entry{Kind: history.Hash, Client: "m-4", Begin: w.now, Revision: w.data.revision, Compacted: 7, Value: "beef"})
	}, []Rule{Same}},
	"an object that vanishes": {func(w *world) {
		w.run(300)
		for name := range w.data.objects {
			if name[:len(CreatePrefix)] == CreatePrefix {
				delete(w.data.objects, name)
				break
			}
		}
		w.run(10)
	}, []Rule{Lost}},
	"an operation that does not end": {func(w *world) {
		w.run(100)
		w.add(history.Entry{Kind: history.Operation, Client: "scale", Round: 3, Outcome: history.Unknown, Error: "timed out"})
	}, []Rule{Rest}},
	"a control plane that is not as wanted": {func(w *world) {
		w.run(100)
		w.add(history.Entry{Kind: history.Settled, Round: 3, Outcome: history.Refused, Value: "JoinFailed: it hangs"})
	}, []Rule{Rest}},
}

// event returns the n-th last event that was told.
func (w *world) event(n int) history.Item {
	for i := len(w.entries) - 1; i >= 0; i-- {
		if e := w.entries[i]; e.Kind == history.Event && e.Type != bookmark {
			if n--; n == 0 {
				return history.Item{Object: e.Object, Value: e.Value, Revision: e.Revision}
			}
		}
	}
	return history.Item{}
}

// TestRight: no history is condemned in which nothing is wrong, and the judge has looked at all of it.
func TestRight(t *testing.T) {
	for name, do := range right {
		for seed := range uint64(seeds) {
			w := newWorld(seed)
			do(w)
			v := Judge(w.end(), limit)
			if len(v.Violations) > 0 {
				t.Errorf("%s, seed %d: %+v", name, seed, v.Violations[0])
			}
			if v.Operations < 600 || v.Acknowledged < 100 || v.Events < 50 || v.Objects < 3 || v.Members != 3 || v.Holds == 0 {
				t.Errorf("%s, seed %d: %+v", name, seed, v)
			}
		}
	}
}

// TestSabotages: each sabotage is found, with each seed, by a rule that is about it.
func TestSabotages(t *testing.T) {
	for name, s := range sabotages {
		found := 0
		for seed := range uint64(seeds) {
			w := newWorld(seed)
			s.do(w)
			v := Judge(w.end(), limit)
			if slices.ContainsFunc(v.Violations, func(v Violation) bool { return slices.Contains(s.rules, v.Rule) }) {
				found++
				continue
			}
			t.Errorf("%s, seed %d: not found by %v, only %v", name, seed, s.rules, v.Violations)
		}
		t.Logf("%s: found in %d of %d", name, found, seeds)
	}
}

// TestIncomplete: a history without what is judged is not right.
func TestIncomplete(t *testing.T) {
	if v := Judge([]history.Entry{{Kind: history.Get, Outcome: history.OK}}, limit); len(v.Violations) != 5 {
		t.Errorf("%+v", v.Violations)
	}
}

// TestKeptFile: a history that was written and read is judged as before.
func TestKeptFile(t *testing.T) {
	w := newWorld(7)
	w.run(300)
	w.old = true
	w.run(300)
	all := w.end()
	var file bytes.Buffer
	r := history.NewRecorder(&file)
	for _, e := range all {
		r.Write(e)
	}
	again, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := Judge(all, limit), Judge(again, limit); len(a.Violations) == 0 || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v, and from the file %+v", a, b)
	}
}

// TestRounds: a fault that bit while the operation was under way has met it, and the longest time without a write counts.
func TestRounds(t *testing.T) {
	ack := func(at int64) history.Entry { return history.Entry{Kind: history.Swap, Outcome: history.OK, End: at} }
	all := []history.Entry{
		ack(5), ack(90), ack(95), ack(130), ack(210), ack(215), ack(400),
		{Kind: history.Operation, Client: "scale", Round: 1, Begin: 100, End: 150, Outcome: history.OK},
		{Kind: history.Fault, Client: "cut", Object: "m", Round: 1, Begin: 110, End: 120, Outcome: history.OK, Value: "silent"},
		{Kind: history.Settled, Round: 1, Begin: 150, End: 212, Outcome: history.OK},
		{Kind: history.Operation, Client: "roll", Round: 2, Begin: 213, End: 214, Outcome: history.OK},
		{Kind: history.Fault, Client: "cut", Round: 2, Begin: 216, End: 217, Outcome: history.OK},
		{Kind: history.Settled, Round: 2, Begin: 214, End: 218, Outcome: history.Refused, Value: "JoinFailed: it hangs"},
		{Kind: history.Operation, Client: "roll", Round: 3, Begin: 220, End: 300, Outcome: history.OK},
		{Kind: history.Fault, Client: "cut", Round: 3, Begin: 230, Outcome: history.Refused},
	}
	want := []Round{
		{Number: 1, Operation: "scale", Fault: "cut", Hit: "m", Proof: "silent", Met: true, Began: 100, Ended: 150, Settled: 212, Gap: 80,
			GapAt: 130},
		{Number: 2, Operation: "roll", Fault: "cut", Began: 213, Ended: 214, Settled: 218, Gap: 185, GapAt: 215, Waits: "JoinFailed: it hangs"},
		{Number: 3, Operation: "roll", Fault: "cut", Began: 220, Ended: 300, Gap: 185, GapAt: 215},
	}
	if got := Rounds(all); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestFile judges the history that QUORATE_SOAK_HISTORY names.
func TestFile(t *testing.T) {
	name := os.Getenv("QUORATE_SOAK_HISTORY")
	if name == "" {
		t.Skip("QUORATE_SOAK_HISTORY names no file")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	v := Judge(all, limit)
	for _, violation := range v.Violations {
		t.Errorf("%+v", violation)
	}
	v.Violations = nil
	t.Logf("%+v", v)
	for _, r := range Rounds(all) {
		t.Logf("%+v", r)
	}
}
