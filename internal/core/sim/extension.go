package sim

import (
	"fmt"
	"math/rand"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Updates in place by a Runtime Extension of others. It is asked about each machine before, and its updates never fail for good, as it is
// asked again and again. An update is begun by several writes, between which the controller may die.

// The events about extensions.
const (
	// SetAnswer: from then on the extension answers as that of number N.
	SetAnswer Kind = "set answer"
	// SetUpdater: a person has the extension update machines in place (N is 1), or the controller itself (N is 0).
	SetUpdater Kind = "set updater"
)

// An answer is what the extension says of every machine.
type answer int

const (
	changesAll  answer = iota // it can change all
	changesPart               // it cannot change all
	silent                    // there is none, or more than one, or it does not answer
	answers                   // how many there are
)

// extensionSalt keeps what is drawn of extensions apart from what else is drawn of a seed.
const extensionSalt = 0xe87e45

// drawExtension has an extension update the machines of some groups that are updated in place.
func (s *Setup) drawExtension(seed int64) {
	r := rand.New(rand.NewSource(seed ^ extensionSalt))
	if r.Intn(3) > 0 || s.InPlace != plan.InPlacePreferred && s.InPlace != plan.InPlaceOnly {
		return
	}
	s.ByExtension, s.Answer = true, r.Intn(int(answers))
	if r.Intn(2) == 0 {
		s.Answer = int(changesAll)
	}
	for range r.Intn(4) {
		at := time.Duration(r.Intn(1500)) * time.Second
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: SetAnswer, N: r.Intn(int(answers))})...)
	}
	s.ByExtension = r.Intn(4) > 0
	for range r.Intn(3) {
		at := time.Duration(r.Intn(1500)) * time.Second
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: SetUpdater, N: r.Intn(2)})...)
	}
}

// byExtension: an extension changes the group's machines in place.
func (w *World) byExtension() bool {
	return w.setup.ByExtension && (w.setup.InPlace == plan.InPlacePreferred || w.setup.InPlace == plan.InPlaceOnly)
}

// isUntouched: a host is of another spec, has come up, stays, and is not being changed.
func (w *World) isUntouched(h *host) bool {
	return h.spec != w.spec && !h.node.IsZero() && !h.deleting && h.update == nil
}

// isUnanswered: the extension changes a host, or does not: it is not known.
func (w *World) isUnanswered(h *host) bool {
	return w.byExtension() && h.spec != w.spec && !h.node.IsZero() && w.answers == silent && !w.setup.Operated
}

// isBegunInPart: the update of a host was begun, and not in full. Making it whole begins nothing.
func (h *host) isBegunInPart() bool { return h != nil && h.update != nil && h.update.unfinished }

// carriedOut is a host that is updated in place, but for one whose update was begun in part, which serves; nil: there is none.
func (w *World) carriedOut() *host {
	if h := w.updating(nil); !h.isBegunInPart() {
		return h
	}
	return nil
}

// addAnswer is what can be seen of what the extension says.
func (w *World) addAnswer(m *plan.Machine, h *host) {
	if !w.byExtension() || !w.isUntouched(h) {
		return
	}
	switch w.answers {
	case changesPart:
		m.NeedsReplacement = "Runtime Extension x does not change the disk"
	case silent:
		m.Unanswered = "no Runtime Extension serves the hook"
	}
}

// askAnew asks the extension before a step that rests on what it said when the controller looked.
func (w *World) askAnew(s plan.Step) error {
	h := w.named(s.Machine)
	if h == nil || !w.sawExtension || !w.isUntouched(h) {
		return nil
	}
	begins := s.Verb == plan.UpdateInPlace && w.answers != changesAll
	replaces := s.Verb == plan.Delete && !s.Repair && !w.deleting && w.sawAnswers == changesPart && w.answers != changesPart
	if begins || replaces {
		return fmt.Errorf("%s: the extension answers otherwise now", s.Verb)
	}
	return nil
}

// beginByExtension marks a host's objects for its update, or the rest of them. A controller that is cut off in between has begun it all the
// same.
func (w *World) beginByExtension(h *host) {
	if h.update == nil {
		if !w.isUntouched(h) || w.updating(h) != nil {
			return // no controller begins a second one: the API server is asked
		}
		h.update = &inPlace{spec: w.saw, byExtension: true, unfinished: true, gaveUp: w.now.Add(24 * time.Hour)}
		if !w.setup.Faultless && w.rand.Intn(3) == 0 {
			h.update.written = w.rand.Intn(2) == 0
			w.tell("the controller dies while it begins the update of %s", h.name)
			w.cutOff(h)
			return
		}
	}
	u := h.update
	if !u.unfinished {
		return
	}
	if u.spec != w.saw && !u.written {
		u.spec = h.spec // it is not wanted any more, and nothing of it was written
	}
	u.unfinished = false
	u.fails = !w.setup.Faultless && (w.isBad(u.spec) && u.spec != h.spec || w.chance(w.setup.UpdateFails))
	w.tryByExtension(h)
}

// cutOff has the controller die in the middle of a beginning, and stay away for a while, in which others may break.
func (w *World) cutOff(h *host) {
	w.upset()
	w.restart()
	away := time.Duration(w.rand.Intn(120)) * time.Second
	w.pausedUntil = w.now.Add(away)
	if w.rand.Intn(2) == 0 || w.setup.Sturdy {
		return
	}
	if o := w.hosts[w.rand.Intn(len(w.hosts))]; o != h && away > 0 {
		at := w.now.Sub(w.start) + time.Duration(w.rand.Int63n(int64(away)))
		w.script = inOrder(append(w.script, Event{At: at, Kind: pick(w.rand, Kill, Crash, Crash, Freeze), N: o.number,
			For: randomSpan(w.rand)})...)
	}
}

// tryByExtension has the extension carry out an update.
func (w *World) tryByExtension(h *host) {
	u := h.update
	if u.voters == 0 { // not with another try, which needs no decision: others may have come meanwhile
		_, u.voters = w.voters()
	}
	u.down = w.now.Add(w.span(40 * time.Second))
	u.up = u.down.Add(w.span(25 * time.Second))
	u.ends = u.up.Add(w.span(20 * time.Second))
	u.gaveUp = w.now.Add(updateGivesUp)
}

// mostTries is how often an extension is asked again before the world goes on without: what does not succeed by then never will, unless
// etcd has a quorum again.
const mostTries = 20

// askedAgain: the extension has failed, and is called once more.
func (w *World) askedAgain(h *host) {
	u := h.update
	u.tries++
	if w.servesUpdated(h) {
		u.tries = 0
	}
	w.tell("the extension fails with %s, and is asked again", h.name)
	w.upset()
	if u.isAway {
		u.isAway = false
		w.wake(h)
	}
	u.fails = false
	w.tryByExtension(h)
}

// judgeWhole: what was begun is made whole where it costs no quorum, and not beside another.
func (w *World) judgeWhole(h *host, s plan.Step, fresh bool) {
	if o := w.updating(h); o != nil {
		w.blame("%s, and %s is being updated", s, o.name)
	}
	switch {
	case !fresh:
	case w.deleting || h.deleting:
		w.blame("%s, and it is leaving", s)
	case w.setup.External || w.inSight() == 1 || h.member == nil || h.member.learner:
	default:
		if staying, all := w.ballot(h.member); 2*staying <= all+1 {
			w.blame("%s, which was begun, and %d of %d voters would answer", s, staying, all+1)
		}
	}
}

// isForExtension: it is not known whether a host can be changed in place, and nothing happens to it before.
func (w *World) isForExtension(h *host) bool { return w.isStaying(h) && w.isUnanswered(h) }
