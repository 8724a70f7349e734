package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/test/soak/history"
)

// state is what one object may be. A revision of 0 is that of an object that is not there; unknown is one that no client has seen yet, and
// that is above floor.
type state struct {
	value    string
	revision int64
	floor    int64
	// any: after a recovery, the value is any that was there before.
	any bool
}

const unknown = -1

// asked is an operation on one object: a read, or a write that expects a revision.
type asked struct {
	write    bool
	expected int64
	value    string
}

// answered is what came back. A write that took effect without an answer has the outcome Unknown.
type answered struct {
	outcome  history.Outcome
	value    string
	revision int64
}

// step returns whether an answer is possible in a state, and the state after it.
func step(s state, in asked, out answered) (bool, state) {
	if !in.write {
		return read(s, out)
	}
	if out.outcome == history.Conflict {
		return s.revision == unknown || s.revision != in.expected, s
	}
	if s.revision == unknown && !s.above(in.expected) || s.revision != unknown && s.revision != in.expected {
		return false, s
	}
	if out.outcome == history.Unknown {
		return true, state{value: in.value, revision: unknown, floor: in.expected}
	}
	return out.revision > in.expected, state{value: in.value, revision: out.revision}
}

func read(s state, out answered) (bool, state) {
	if s.revision != unknown {
		return out.revision == s.revision && (out.revision == 0 || out.value == s.value), s
	}
	return s.above(out.revision) && (s.any || out.value == s.value), state{value: out.value, revision: out.revision}
}

// above reports whether a revision may be the one that no client has seen yet.
func (s state) above(revision int64) bool {
	return revision > s.floor || s.any && revision == s.floor
}

// model is one object, for porcupine.
func model(begins state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begins },
		Step: stepAny,
	}
}

func stepAny(s, in, out any) (bool, any) {
	ok, next := step(s.(state), in.(asked), out.(answered))
	return ok, next
}

// objects judges each object that is compared and swapped.
func (t *trial) objects(limit time.Duration) {
	byObject := t.operations()
	t.verdict.Objects = len(byObject)
	for _, object := range sortedKeys(byObject) {
		for n, part := range t.epochs(byObject[object]) {
			if len(part.operations) == 0 {
				continue
			}
			first := part.operations[0].Call
			switch porcupine.CheckOperationsTimeout(model(part.begins), part.operations, limit) {
			case porcupine.Illegal:
				t.breaks(Linear, first, "no order explains the %d operations on %s (after %d recoveries)", len(part.operations), object, n)
			case porcupine.Unknown:
				t.breaks(Undecided, first, "%s with %d operations was not decided in %s", object, len(part.operations), limit)
			}
		}
	}
}

// operations returns the operations on each object: those of which it is known what they did.
func (t *trial) operations() map[string][]porcupine.Operation {
	seen := t.firstSeen()
	all := map[string][]porcupine.Operation{}
	add := func(object string, e history.Entry, end int64, in asked, out answered) {
		all[object] = append(all[object], porcupine.Operation{Input: in, Output: out, Call: e.Begin, Return: end})
	}
	for _, e := range t.all {
		switch {
		case e.Kind == history.Swap && e.Outcome != history.Refused:
			end, in := e.End, asked{true, e.Expected, e.Value}
			if e.Outcome == history.Unknown {
				at, ever := seen[e.Value]
				if !ever {
					continue // it was not done, or no client noticed
				}
				end = max(at, e.Begin)
			}
			add(e.Object, e, end, in, answered{e.Outcome, e.Value, e.Revision})
		case e.Kind == history.Get && e.Outcome == history.OK:
			add(e.Object, e, e.End, asked{}, answered{history.OK, e.Value, e.Revision})
		}
	}
	t.listed(all, add)
	return all
}

// listed adds what lists read: the objects in it, and that others with such names were not there.
func (t *trial) listed(all map[string][]porcupine.Operation,
	add func(object string, e history.Entry, end int64, in asked, out answered)) {
	names := sortedKeys(all)
	for _, e := range t.all {
		if e.Kind != history.List || e.Outcome != history.OK || !strings.HasPrefix(e.Object, SwapPrefix) {
			continue
		}
		there := map[string]bool{}
		for _, item := range e.Items {
			there[item.Object] = true
			add(item.Object, e, e.End, asked{}, answered{history.OK, item.Value, item.Revision})
		}
		from, _ := slices.BinarySearch(names, e.Object)
		for _, name := range names[from:] {
			if !strings.HasPrefix(name, e.Object) {
				break
			}
			if !there[name] {
				add(name, e, e.End, asked{}, answered{history.OK, "", 0})
			}
		}
	}
}

// firstSeen returns by value when somebody had seen it first.
func (t *trial) firstSeen() map[string]int64 {
	seen := map[string]int64{}
	see := func(value string, at int64) {
		if was, before := seen[value]; value != "" && (!before || at < was) {
			seen[value] = at
		}
	}
	for _, e := range t.all {
		switch {
		case e.Kind == history.Get && e.Outcome == history.OK:
			see(e.Value, e.End)
		case e.Kind == history.Event:
			see(e.Value, e.Begin)
		case e.Kind == history.List && e.Outcome == history.OK:
			for _, item := range e.Items {
				see(item.Value, e.End)
			}
		}
	}
	return seen
}

// epoch is the operations on an object between two recoveries.
type epoch struct {
	begins     state
	operations []porcupine.Operation
}

// epochs divides the operations on an object by recoveries. What was asked while one went on may have been answered by either side, and is
// not judged here. After a recovery, the object is as some write left it that is not older than what the source held.
func (t *trial) epochs(all []porcupine.Operation) []epoch {
	parts := make([]epoch, len(t.recovered)+1)
	for n, r := range t.recovered {
		begins := state{revision: unknown, any: true}
		for _, o := range all {
			if out := o.Output.(answered); o.Return <= r.Kept && out.outcome == history.OK {
				begins.floor = max(begins.floor, out.revision)
			}
		}
		parts[n+1].begins = begins
	}
	for _, o := range all {
		n := 0
		for n < len(t.recovered) && o.Call >= t.recovered[n].End {
			n++
		}
		if n < len(t.recovered) && o.Return > t.recovered[n].Begin {
			continue
		}
		parts[n].operations = append(parts[n].operations, o)
	}
	for i := range parts {
		slices.SortStableFunc(parts[i].operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	}
	return parts
}

func sortedKeys[T any](m map[string]T) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
