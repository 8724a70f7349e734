package judge

import (
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/quorate/quorate/test/soak/history"
)

// copied is one copy of a cluster's data.
type copied struct {
	revision int64
	objects  map[string]history.Item
}

func (c *copied) clone() *copied { return &copied{c.revision, maps.Clone(c.objects)} }

// write writes if the object has the revision that is expected, and returns the new one; 0: it has another.
func (c *copied) write(object, value string, expected int64) int64 {
	if c.objects[object].Revision != expected {
		return 0
	}
	c.revision += 1 + int64(len(value)%3) // others write too
	c.objects[object] = history.Item{Object: object, Value: value, Revision: c.revision}
	return c.revision
}

// told is a write on its way to the watches.
type told struct {
	item history.Item
	at   int64
}

// world is a cluster with its clients, as it would be, or with a sabotage. Operations take effect one after the other, and their intervals
// overlap.
type world struct {
	r    *rand.Rand
	now  int64
	data *copied
	// other, if there is one, answers some requests instead of data.
	other *copied
	// seen is what clients know of objects.
	seen    map[string]history.Item
	entries []history.Entry
	tells   []told
	// position is how far the watch is; lost is the share of answers that never come.
	position int64
	lost     float64
	number   int
	// holder is who holds the lease, since when.
	holder, held int64
	// Sabotages: how old what is read may be; whether the next event is not told.
	past []*copied
	old  bool
	drop bool
}

const second = 1_000_000_000

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 1)), now: second, data: &copied{100, map[string]history.Item{}}, seen: map[string]history.Item{}}
	w.listFrom("informer")
	w.add(history.Entry{Kind: history.Watch, Client: "informer", Begin: w.now, End: w.now, Outcome: history.OK, Revision: w.position})
	return w
}

func (w *world) add(e history.Entry) { w.entries = append(w.entries, e) }

// interval returns when an operation began and ended that takes effect now.
func (w *world) interval() (begin, end int64) {
	return w.now - w.r.Int64N(second/20), w.now + w.r.Int64N(second/20)
}

// answering is the copy that answers a request.
func (w *world) answering() *copied {
	if w.other != nil && w.r.IntN(3) == 0 {
		return w.other
	}
	return w.data
}

// run lets clients do so many operations.
func (w *world) run(operations int) {
	for range operations {
		w.now += 1 + w.r.Int64N(second/50)
		client := fmt.Sprint("client-", w.r.IntN(6))
		object := fmt.Sprint(SwapPrefix, w.number/200, "-", w.r.IntN(3))
		switch w.r.IntN(10) {
		case 0:
			w.list(client, fmt.Sprint(SwapPrefix, w.number/200, "-"))
		case 1, 2, 3:
			w.get(client, object)
		case 4:
			w.create()
		default:
			w.swap(client, object)
		}
		w.number++
		if w.r.IntN(4) == 0 {
			w.tell(w.now - second/10)
		}
		if w.now-w.held > 20*second {
			w.takeLease(0)
		}
		w.past = append(w.past, w.data.clone())
		if len(w.past) > 40 {
			w.past = w.past[1:]
		}
	}
}

func (w *world) get(client, object string) {
	from := w.answering()
	if w.old && w.r.IntN(5) == 0 {
		from = w.past[0]
	}
	item := from.objects[object]
	begin, end := w.interval()
	w.add(history.Entry{Kind: history.Get, Client: client, Object: object, Begin: begin, End: end, Outcome: history.OK, Value: item.Value,
		Revision: item.Revision})
	w.seen[client+object] = item
}

// swap writes what the client expects of the object by what it saw last, which may be old.
func (w *world) swap(client, object string) {
	if w.r.IntN(3) > 0 {
		w.get(client, object)
		w.now += 1 + w.r.Int64N(second/50)
	}
	expected := w.seen[client+object].Revision
	value := fmt.Sprintf("%s:%d", client, w.number)
	begin, end := w.interval()
	e := history.Entry{Kind: history.Swap, Client: client, Object: object, Begin: begin, End: end, Expected: expected, Value: value,
		Outcome: history.Conflict}
	if w.r.Float64() < w.lost {
		e.Outcome, e.End = history.Unknown, w.now+5*second
		if w.r.IntN(2) == 0 {
			w.written(w.answering(), object, value, expected)
		}
		w.add(e)
		return
	}
	if revision := w.written(w.answering(), object, value, expected); revision > 0 {
		e.Outcome, e.Revision = history.OK, revision
		w.seen[client+object] = history.Item{Object: object, Value: value, Revision: revision}
	}
	w.add(e)
}

func (w *world) written(to *copied, object, value string, expected int64) int64 {
	revision := to.write(object, value, expected)
	if revision > 0 && to == w.data {
		w.tells = append(w.tells, told{to.objects[object], w.now})
	}
	return revision
}

func (w *world) create() {
	object := fmt.Sprint(CreatePrefix, w.number)
	begin, end := w.interval()
	revision := w.answering().write(object, "", 0)
	w.add(history.Entry{Kind: history.Create, Client: "creator", Object: object, Begin: begin, End: end, Outcome: history.OK,
		Revision: revision})
}

func (w *world) list(client, prefix string) {
	from := w.answering()
	begin, end := w.interval()
	e := history.Entry{Kind: history.List, Client: client, Object: prefix, Begin: begin, End: end, Outcome: history.OK,
		Revision: from.revision}
	for _, name := range sortedKeys(from.objects) {
		if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
			e.Items = append(e.Items, from.objects[name])
		}
	}
	w.add(e)
}

// listFrom is a list of a client that watches from it on.
func (w *world) listFrom(client string) {
	w.list(client, SwapPrefix)
	w.position, w.tells = w.data.revision, nil
}

// tell delivers to the watch what was written before a moment.
func (w *world) tell(before int64) {
	for len(w.tells) > 0 && w.tells[0].at <= before {
		item := w.tells[0].item
		w.tells = w.tells[1:]
		if w.drop {
			w.drop = false
			continue
		}
		kind := "MODIFIED"
		w.add(history.Entry{Kind: history.Event, Client: "informer", Begin: w.now, Type: kind, Object: item.Object, Value: item.Value,
			Revision: item.Revision})
		w.position = item.Revision
	}
	if len(w.tells) == 0 && w.r.IntN(20) == 0 {
		w.position = w.data.revision
		w.add(history.Entry{Kind: history.Event, Client: "informer", Begin: w.now, Type: bookmark, Revision: w.position})
	}
}

// watchAgain is a watch that was cut off and goes on from where it was.
func (w *world) watchAgain() {
	w.add(history.Entry{Kind: history.Watch, Client: "informer", Begin: w.now, End: w.now, Outcome: history.Unknown, Revision: w.position})
	w.add(history.Entry{Kind: history.Watch, Client: "informer", Begin: w.now, End: w.now, Outcome: history.OK, Revision: w.position})
}

// takeLease has the next holder take the lease, while the one before still holds it for a time.
func (w *world) takeLease(longer int64) {
	w.add(history.Entry{Kind: history.Hold, Client: fmt.Sprint("holder-", w.holder%3), Object: "held", Begin: w.held,
		End: w.now - second + longer, Outcome: history.OK})
	w.holder, w.held = w.holder+1, w.now
}

// gone is the answer 410 to the watch, after which it lists.
func (w *world) gone() {
	w.add(history.Entry{Kind: history.Expired, Client: "informer", Begin: w.now, Revision: w.position})
	w.listFrom("informer")
	w.watchAgain()
}

// recover puts back what was there at a moment. Writes since then are lost; the revision goes on above all that was given, if it is raised.
func (w *world) recover(kept *copied, at, raised int64) {
	begin := w.now + second
	w.now += 10 * second
	highest := w.data.revision
	w.data = kept.clone()
	if raised > 0 {
		w.data.revision = highest + raised
	}
	w.tells = nil
	w.add(history.Entry{Kind: history.Recovered, Begin: begin, End: w.now, Kept: at})
	w.now += second
	clear(w.seen)
}

// end reads all in the end, after the watch has delivered all.
func (w *world) end() []history.Entry {
	w.now += second
	w.tell(w.now)
	w.now += second
	w.takeLease(0)
	w.list(EndClient, SwapPrefix)
	w.list(EndClient, CreatePrefix)
	for _, m := range []string{"m-1", "m-2", "m-3"} {
		w.add(history.Entry{Kind: history.Hash, Client: m, Begin: w.now, Revision: w.data.revision, Compacted: 7, Value: "cafe",
			Outcome: history.OK})
	}
	return w.entries
}
