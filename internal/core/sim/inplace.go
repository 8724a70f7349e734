package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Updates in place: a host's member and its API server are away for a while, and it is of another spec afterwards, or as it was before.

// What people do about updates in place.
const (
	SetInPlace Kind = "set in place" // the policy, to that of number N
	Elsewhere  Kind = "elsewhere"    // somebody else updates machine N to the spec that is wanted
	Retry      Kind = "retry"        // a person tries the failed update of machine N again

	HoldUpdates Kind = "hold updates" // a person lets none begin, For a while
)

// policies are those that SetInPlace chooses from.
var policies = []plan.InPlace{plan.InPlaceNever, plan.InPlacePreferred, plan.InPlaceOnly, plan.InPlaceExternal}

// inPlaceSalt keeps what is drawn of updates in place apart from what else is drawn of a seed.
const inPlaceSalt = 0x1a91ace

// holdSalt keeps what is drawn of a person's holds apart from what else is drawn of a seed.
const holdSalt = 0x401d

// updateGivesUp is how long an update may be under way, and verifyGivesUp how long the new version may take to serve.
const (
	updateGivesUp = 15 * time.Minute
	verifyGivesUp = 2 * time.Minute
)

// drawInPlace lets some groups update their machines in place.
func (s *Setup) drawInPlace(seed int64) {
	r := rand.New(rand.NewSource(seed ^ inPlaceSalt))
	if r.Intn(3) > 0 || s.EtcdOnly {
		return
	}
	s.InPlace = pick(r, plan.InPlacePreferred, plan.InPlacePreferred, plan.InPlaceOnly, plan.InPlaceOnly, plan.InPlaceExternal)
	s.UpdateFails = pick(r, 0, 0, 10, 50)
	if r.Intn(3) == 0 {
		s.Fixed = map[int]bool{2 + r.Intn(2): true}
	}
	// One machine is away by our own doing, so that the promise for a single failure is another.
	s.Sturdy = false
	s.Script = slices.DeleteFunc(s.Script, func(e Event) bool { return e.Kind == Upstream }) // it knows of no updates
	at := time.Duration(0)
	for range 1 + r.Intn(6) {
		at += time.Duration(r.Intn(400)) * time.Second
		kind := pick(r, Change, Change, Change, Kill, Reboot, Freeze, DeleteMachine, Mark, Crash, Pause, Scale, SetInPlace, Elsewhere, Retry,
			Restart, Unready)
		e := Event{At: at, Kind: kind, N: 1 + r.Intn(5), For: randomSpan(r)}
		switch kind {
		case Change:
			e.N = 1 + r.Intn(3)
		case SetInPlace:
			e.N = r.Intn(4)
		}
		s.Script = inOrder(append(s.Script, e)...)
	}
}

// drawHold lets a person hold the updates of some groups now and then, mostly just before a change of the spec or in the middle of its
// rollout.
func (s *Setup) drawHold(seed int64) {
	r := rand.New(rand.NewSource(seed ^ holdSalt))
	if r.Intn(3) > 0 || s.InPlace == plan.InPlaceNever {
		return
	}
	for _, e := range slices.Clone(s.Script) {
		if e.Kind == Change && r.Intn(2) == 0 {
			at := max(0, e.At+time.Duration(r.Intn(600)-60)*time.Second)
			s.Script = inOrder(append(s.Script, Event{At: at, Kind: HoldUpdates, For: randomSpan(r)})...)
		}
	}
}

// An inPlace is the update of a host in place.
type inPlace struct {
	spec    int       // that it must be of
	voters  int       // how many there were when it began
	down    time.Time // when its member and its API server stop; zero: they do not, or did
	up      time.Time // when they are back; zero: they are, or were never away
	ends    time.Time // when it is known whether it was well
	gaveUp  time.Time // when its controller gives up at the latest
	isAway  bool      // they are away
	fails   bool      // it will be rolled back
	breaks  bool      // and the host stays broken
	changes bool      // it fails after the host was changed, and that is not rolled back
	done    bool      // it is of the spec, and its objects do not say so
	changed bool      // it failed, and the host is of the spec that the update was for
	failure string    // why it failed; empty: it did not

	byExtension bool // a Runtime Extension of somebody else carries it out
	tries       int  // how often an extension was asked again
	unfinished  bool // it was begun, and not in full: it is not carried out
	written     bool // and objects of the host say already what it must be
}

// isUpdating: a host is updated in place, and that has not ended.
func (h *host) isUpdating() bool { return h.update != nil && !h.update.done && h.update.failure == "" }

// isAway: what runs on a host is away because it is updated.
func (h *host) isAway() bool { return h.isUpdating() && h.update.isAway }

// hasFailedUpdate: a host's update failed, and that was not dealt with.
func (h *host) hasFailedUpdate() bool { return h.update != nil && h.update.failure != "" }

// beginUpdate begins the update of a host to the spec that the controller saw, unless one is there.
func (w *World) beginUpdate(h *host) {
	if h.update != nil {
		return
	}
	w.restartUpdate(h, w.saw)
}

// restartUpdate begins an update, or begins it again.
func (w *World) restartUpdate(h *host, spec int) {
	u := &inPlace{spec: spec, fails: w.isBad(spec) || w.chance(w.setup.UpdateFails), breaks: w.rand.Intn(6) == 0, changes: w.rand.Intn(4) == 0,
		gaveUp: w.now.Add(updateGivesUp)}
	_, u.voters = w.voters()
	h.update = u
	if w.rand.Intn(15) == 0 && !w.setup.Faultless {
		w.tell("the update of %s hangs", h.name)
		return
	}
	u.down = w.now.Add(w.span(40 * time.Second))
	u.up = u.down.Add(w.span(25 * time.Second))
	u.ends = u.up.Add(w.span(20 * time.Second))
}

// updateMoments are when something may happen to a host's update by itself.
func (h *host) updateMoments(at func(time.Time)) {
	if u := h.update; h.isUpdating() && u.tries <= mostTries {
		at(u.down)
		at(u.up)
		at(u.ends)
		at(u.ends.Add(verifyGivesUp))
		at(u.gaveUp)
	}
}

// progressUpdate goes on with a host's update. Nothing happens to it while the host is not there.
func (w *World) progressUpdate(h *host) {
	u := h.update
	switch {
	case !h.isUpdating() || u.unfinished || u.tries > mostTries && !w.servesUpdated(h):
	case !w.now.Before(u.gaveUp) && u.byExtension:
		if h.alive() {
			w.askedAgain(h)
		}
	case !w.now.Before(u.gaveUp):
		w.failUpdate(h, "it was given up")
	case !h.alive():
	case w.hasPassed(u.down):
		u.down, u.isAway = time.Time{}, true
		if m := h.member; m != nil {
			w.stop(m)
		}
		w.judgeAway(h)
		w.depose()
	case w.hasPassed(u.up):
		u.up, u.isAway = time.Time{}, false
		w.wake(h)
	case w.hasPassed(u.ends) && u.up.IsZero():
		w.verify(h)
	}
}

// wake runs what runs on a host again.
func (w *World) wake(h *host) {
	if m := h.member; m != nil && !m.removed && h.alive() {
		w.run(m)
	}
}

// servesUpdated: the API server of a host that was updated comes up.
func (w *World) servesUpdated(h *host) bool {
	return w.setup.External || h.member != nil && !h.member.removed && w.hasQuorum()
}

// verify ends an update: well, or as it was before.
func (w *World) verify(h *host) {
	u := h.update
	serves := w.servesUpdated(h)
	switch {
	case u.byExtension && (u.fails || !serves && !w.now.Before(u.ends.Add(verifyGivesUp))):
		w.askedAgain(h)
	case u.fails && u.changes && !w.isBad(u.spec):
		u.changed = true
		w.failUpdate(h, "kubeadm's configuration could not be written")
	case u.fails:
		w.failUpdate(h, "the new version does not come up, and the node was put back")
	case serves:
		u.done = true
		w.followAddons(h)
		w.tell("%s was updated", h.name)
	case !w.now.Before(u.ends.Add(verifyGivesUp)):
		w.failUpdate(h, "the API server does not come up, and the node was put back")
	}
}

// followAddons: kubeadm updates the addons with a host, unless another one is of another version.
func (w *World) followAddons(updated *host) {
	spec := updated.update.spec
	if !slices.ContainsFunc(w.hosts, func(h *host) bool { return h != updated && h.spec != spec }) {
		w.addons = spec
	}
}

// failUpdate puts a host back as it was, or not quite.
func (w *World) failUpdate(h *host, why string) {
	u := h.update
	u.failure, u.isAway = why, false
	w.tell("the update of %s fails: %s", h.name, why)
	w.upset()
	w.wake(h)
	switch {
	case !u.breaks || !u.fails || u.changed || !h.alive():
	case w.setup.NodeOnly:
		h.unready, h.ready = w.now, time.Time{}
	default:
		h.sick, h.well = true, time.Time{}
	}
}

// actOnUpdate carries out a step that is about a host's update.
func (w *World) actOnUpdate(h *host, s plan.Step) {
	switch {
	case s.Verb == plan.UpdateInPlace && (w.sawExtension || h.update != nil && h.update.byExtension):
		w.takePlace(s, h)
		w.beginByExtension(h)
	case s.Verb == plan.UpdateInPlace:
		w.takePlace(s, h)
		w.beginUpdate(h)
	case h.update == nil:
	case s.Verb == plan.RecordUpdate && h.update.done:
		h.spec, h.dropped, h.update = h.update.spec, h.update.spec != w.spec, nil
	case s.Verb == plan.DropUpdate && h.update.failure != "":
		h.update = nil
	}
}

// befallUpdate is what people do about updates in place. It reports whether the event was such a one.
func (w *World) befallUpdate(e Event) bool {
	h := w.number(e.N)
	switch e.Kind {
	case SetAnswer:
		w.tell("the extension answers as number %d does", e.N)
		w.answers = answer(e.N)
	case SetUpdater:
		w.setup.ByExtension = e.N == 1
		w.tell("an extension updates machines in place: %t", w.setup.ByExtension)
	case SetInPlace:
		w.tell("the policy for updates in place: %q", policies[e.N])
		w.setup.InPlace = policies[e.N]
	case Elsewhere:
		if h != nil && h.spec != w.spec && h.stage == up && h.update == nil && !w.isBad(w.spec) {
			w.tell("somebody updates %s", h.name)
			h.spec, h.dropped = w.spec, false
		}
	case HoldUpdates:
		w.tell("a person holds updates in place for %s", e.For)
		w.prolong(e, 0)
	case Retry:
		if h != nil && h.hasFailedUpdate() {
			w.tell("a person tries the update of %s again", h.name)
			w.restartUpdate(h, h.update.spec)
		}
	default:
		return false
	}
	return true
}

// isFixed: what a host differs in cannot be changed in place.
func (w *World) isFixed(h *host) bool {
	if w.byExtension() {
		return w.setup.Operated || w.answers == changesPart
	}
	return w.setup.Operated || w.otherTemplate(h)
}

// otherTemplate: a host's template is another than the wanted one.
func (w *World) otherTemplate(h *host) bool { return w.setup.Fixed[h.spec] != w.setup.Fixed[w.spec] }

// addUpdate is what can be seen of a host's update, and of whether it can be made.
func (w *World) addUpdate(m *plan.Machine, h *host) {
	w.addAnswer(m, h)
	if h.spec != w.spec && w.otherTemplate(h) && !w.byExtension() {
		m.NeedsReplacement = "infrastructure template"
	}
	u := h.update
	if u == nil {
		return
	}
	m.Update = plan.Update{State: plan.UpdateUnderway, Message: "step swap", Obsolete: !u.byExtension && (u.spec != w.spec || w.byExtension()),
		Unfinished: u.unfinished}
	switch {
	case u.done:
		m.Update.State, m.Update.Message = plan.UpdateDone, "verified"
	case u.failure != "":
		m.Update.State, m.Update.Message, m.Update.Changed = plan.UpdateFailed, "step swap: "+u.failure, u.changed
	}
}

// isChangedInPlace: by the user's policy a host becomes what is wanted without being replaced.
func (w *World) isChangedInPlace(h *host) bool {
	chosen := w.setup.InPlace == plan.InPlacePreferred || w.setup.InPlace == plan.InPlaceOnly
	return chosen && h.spec != w.spec && !w.isFixed(h) && !h.node.IsZero() && !w.isUnanswered(h)
}

// isReplaced: by the user's policy another takes the place of a host that is of another spec.
func (w *World) isReplaced(h *host) bool {
	switch w.setup.InPlace {
	case plan.InPlaceOnly, plan.InPlaceExternal:
		return false
	}
	return h.spec != w.spec && !w.isChangedInPlace(h) && !w.isUnanswered(h)
}

// updating is a host that is updated in place, but one, and that something holds; nil: there is none.
func (w *World) updating(but *host) *host {
	return first(w.hosts, func(h *host) bool { return h != but && h.isUpdating() && !w.isDoomed(h) })
}
