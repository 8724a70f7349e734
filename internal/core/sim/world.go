package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// A World is the true state of a cluster and of the group that makes it.
type World struct {
	setup Setup
	rand  *rand.Rand
	start time.Time
	now   time.Time

	// the group
	replicas     int
	deleting     bool
	pausedUntil  time.Time
	others       time.Time // until when upstream's controller runs in our place
	refusedUntil time.Time
	certificates bool
	kubeconfig   bool
	forbidden    bool // permissions in the cluster are missing, that of forwarding ports among them
	orphaning    bool // the group goes without its machines, of which some still name it as their owner
	initialised  bool
	rested       bool // all was once as wanted
	finished     bool
	workersUntil time.Time // zero: until the group is to go
	theirs       int       // how many machines upstream's controller made
	last         int       // the highest number that was put into a name
	begun        string    // a creation that was cut short
	decided      deciding
	approved     int       // the spec that a person has approved; 0: none
	limits       limits    // of replacements
	archive      archive   // of backups of etcd
	recoveries   archivist // of etcd by a seed
	power        power     // whether its machines are to run
	begunSpec    int       // the spec that it was made of
	begunHeld    bool      // it was made ahead
	spec         int       // which machines are wanted
	kubeadm      int       // for which spec kubeadm's own configuration is
	addons       int       // of which spec the addons are
	repairing    *repair   // a machine that was given up, and not replaced yet
	calm         bool      // nothing went wrong since the spec was last changed
	moves        int       // how often we moved the leader since then

	hosts       []*host
	members     []*member
	memberCount int
	struck      []*member // that a person removed by hand
	leader      *member
	leaderless  time.Time
	keeps       int       // the version of etcd
	lowering    int       // to which a downgrade lowers that; 0: there is none
	versionDue  time.Time // when it changes; zero: not now
	script      []Event
	seats       []*host   // on which an operator keeps a member
	operatorDue time.Time // when it does what is next; zero: nothing is

	backup      *backup // of the management cluster; nil: there is none
	forgot      bool    // whether the cluster was initialised is neither recorded nor seen
	replaceable bool    // although the spec is refused, machines can be made
	lasting     []lasting

	seen  map[string]sight // what the controller remembers of the members
	looks []look           // the last looks, the newest last
	saw   int              // the spec that the controller saw last
	space room
	tidy  tidiness
	// silentSince is since when nothing has answered the controller at the endpoint; zero: something does, or it has no kubeconfig.
	silentSince time.Time
	// answers is what a Runtime Extension says of machines, and sawAnswers what it said when the controller looked.
	answers, sawAnswers answer
	// sawExtension: when the controller looked an extension changed machines in place.
	sawExtension bool
	blinded      bool // that look showed less than the truth, and nothing that is not true

	went map[int]time.Duration // when each machine was gone, since the start

	wrong error // the first invariant that was broken
	story *Story
	see   func(plan.Observed) // gets each look; nil: nothing does
}

// look is what was observed, and of what.
type look struct {
	plan.Observed
	spec, limits int // the spec that was wanted then, and which version of limits
	recovery     *recovery
	answers      answer
	byExtension  bool
	power        int
}

// sight is how a member looked, and since when.
type sight struct {
	named, learner, placed bool
	health                 plan.Health
	since                  time.Time
}

// New makes an empty world.
func New(s Setup) *World {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &World{
		setup: s, rand: rand.New(rand.NewSource(s.Seed)), start: start, now: start,
		replicas: s.Replicas, spec: 1, saw: 1, calm: true, script: s.Script, seen: map[string]sight{}, went: map[int]time.Duration{},
		limits:  limits{most: s.Limit},
		decided: deciding{truly: map[string]sighted{}},
		answers: answer(s.Answer), sawAnswers: answer(s.Answer), recoveries: archivist{holds: map[string]int{}},
	}
}

// hasPassed: a moment has come; a zero one never does.
func (w *World) hasPassed(at time.Time) bool { return !at.IsZero() && !w.now.Before(at) }

// Advance lets time pass until the given moment, or until something happens by itself
// before it, but at least a second.
func (w *World) Advance(until time.Time) {
	next := until
	w.moments(func(t time.Time) {
		if t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	})
	if least := w.now.Add(time.Second); next.Before(least) {
		next = least
	}
	w.now = next
	w.happen()
	listen(w)
}

// Quiet reports whether nothing will ever happen by itself.
func (w *World) Quiet() bool {
	quiet := true
	w.moments(func(t time.Time) {
		if t.After(w.now) {
			quiet = false
		}
	})
	return quiet
}

// moments are when something may happen by itself.
func (w *World) moments(at func(time.Time)) {
	for _, h := range w.hosts {
		w.hostMoments(h, at)
	}
	for _, m := range w.members {
		at(m.back)
		at(m.since.Add(connected))
	}
	w.versionMoments(at)
	at(w.archive.due)
	keeper{w}.moments(at)
	for _, due := range w.recoveries.dues {
		at(due)
	}
	at(w.operatorDue)
	if w.leader == nil && w.hasQuorum() {
		at(w.leaderless.Add(election))
	}
	if len(w.script) > 0 {
		at(w.start.Add(w.script[0].At))
	}
	for _, l := range w.lasting {
		at(l.until)
	}
	at(w.pausedUntil)
	at(w.others)
	at(w.refusedUntil)
	at(w.workersUntil)
	at(w.power.going)
}

// hostMoments are when something may happen to a host by itself.
func (w *World) hostMoments(h *host, at func(time.Time)) {
	if h.deleting {
		at(h.drained)
		at(h.gone)
	}
	if h.alive() && h.failed == "" {
		at(h.due)
		at(h.patience)
	}
	if !h.alive() && h.stage >= settling {
		at(h.dead.Add(nodeLost))
	}
	h.updateMoments(at)
	at(h.returns)
	at(h.speaks)
	at(h.shown)
	at(h.ends)
	at(h.freed)
	if !h.silent.IsZero() {
		at(h.silent.Add(nodeLost))
	}
	at(h.ready)
	at(h.well)
	at(h.passes)
	if w.setup.Checks {
		at(w.ailsUntil(h))
	}
}

// happen does all that falls due now, in an order that does not depend on chance.
func (w *World) happen() {
	for len(w.script) > 0 && !w.now.Before(w.start.Add(w.script[0].At)) {
		e := w.script[0]
		w.script = w.script[1:]
		w.befall(e)
	}
	w.bringBackMembers()
	for _, h := range slices.Clone(w.hosts) {
		w.recover(h)
		w.endUnknown(h)
	}
	for _, m := range w.members {
		w.hear(m)
	}
	for changed := true; changed; {
		changed = false
		w.elect()
		for _, h := range append([]*host(nil), w.hosts...) {
			changed = w.progress(h) || changed
			w.progressUpdate(h)
			w.age(h)
		}
	}
	w.operates()
	w.monitorVersions()
	w.endOrphaning()
	w.checkHealth()
	gate{w}.keep()
	recovering{w}.keep()
	sleeper{w}.keep()
}

// bringBackMembers runs the members again whose failure was a passing one.
func (w *World) bringBackMembers() {
	for _, m := range append(slices.Clone(w.members), w.recoveries.retired...) {
		if w.hasPassed(m.back) && m.host.alive() {
			w.tell("etcd on %s is back", m.host.name)
			w.run(m)
		}
	}
}

// befall lets an event of the script happen.
func (w *World) befall(e Event) {
	if e.Kind == Change {
		w.change(e.N)
		return
	}
	w.upset()
	w.limits.surged = false
	e, happens := w.ofKind(e)
	if !happens || w.befallOtherTime(e) || w.befallLimit(e) || (gate{w}).befall(e) || (recovering{w}).befall(e) || w.befallUpdate(e) ||
		(sleeper{w}).befall(e) || w.operate(e) || w.befallSeldom(e) || (decider{w}).befall(e) || (tidier{w}).befall(e) {
		return
	}
	w.befallGroup(e)
	if e.Kind == Outage {
		w.stopAll(e)
	}
	if h := w.number(e.N); h != nil {
		w.befallHost(e, h)
	}
}

// befallGroup is what happens to the group as a whole, and to who works on it.
func (w *World) befallGroup(e Event) {
	switch e.Kind {
	case Scale:
		w.tell("replicas: %d", e.N)
		w.replicas = e.N
	case DeleteGroup:
		if w.deleting {
			break
		}
		w.tell("the group is deleted")
		w.deleting, w.workersUntil = true, w.now.Add(time.Duration(5+w.rand.Intn(60))*time.Second)
		keeper{w}.end()
	case Restart:
		w.tell("the controller starts anew")
		w.restart()
	case Pause:
		w.tell("the cluster is paused for %s", e.For)
		w.pausedUntil = w.now.Add(e.For)
	case Approve:
		w.approve(e.N)
	case Deactivate:
		w.tell("the group is inactive for %s", e.For)
		w.prolong(e, 0)
	case Refuse:
		w.tell("the controller's clock is ahead: etcd refuses its certificate for %s", e.For)
		w.refusedUntil = w.now.Add(e.For)
	}
}

// stopAll stops etcd everywhere for a while.
func (w *World) stopAll(e Event) {
	w.tell("etcd stops everywhere for %s", e.For)
	for _, m := range w.members {
		if m.running {
			w.stop(m)
			m.back = w.now.Add(e.For)
		}
	}
}

func (w *World) befallHost(e Event, h *host) {
	switch e.Kind {
	case DeleteMachine:
		w.tell("somebody deletes %s", h.name)
		w.remove(h)
	case ForceDelete:
		w.tell("somebody deletes %s and takes its hook away", h.name)
		w.remove(h)
		h.forced = true
		w.release(h)
	case Kill:
		w.tell("%s dies", h.name)
		w.kill(h)
	case Freeze, Reboot:
		w.tell("%s is away for %s (%s)", h.name, e.For, e.Kind)
		w.away(h, e.Kind == Reboot, e.For)
	case Crash, Hang:
		if h.member != nil && h.member.running {
			w.interrupt(h.member, e)
		}
	default:
		w.befallNode(e, h)
	}
}

// interrupt stops the process of a member for a while, or lets it stand still.
func (w *World) interrupt(m *member, e Event) {
	if e.Kind == Crash {
		w.tell("etcd on %s stops for %s", m.host.name, e.For)
		w.stop(m)
	} else {
		w.tell("etcd on %s stands still for %s", m.host.name, e.For)
		w.hang(m)
	}
	m.back = w.now.Add(e.For)
}

// befallNode is what a host lives on with, or what a person wants with it.
func (w *World) befallNode(e Event, h *host) {
	if personal := e.Kind == Mark || e.Kind == Choose; h.node.IsZero() && (!personal || !w.hangs(h)) || !h.alive() && !personal {
		return
	}
	switch e.Kind {
	case Mark:
		w.tell("somebody marks %s to be replaced", h.name)
		h.marked, h.byHand = "somebody wants it", true
	case Choose:
		w.tell("somebody chooses %s to go", h.name)
		h.chosen = true
	case Unready:
		w.tell("the node of %s is not ready for %s", h.name, e.For)
		h.unready, h.ready = w.now, w.now.Add(e.For)
	case Sicken:
		w.tell("a component of %s is not healthy for %s", h.name, e.For)
		h.sick, h.well = true, w.now.Add(e.For)
	case Gate:
		w.tell("a gate of %s is not passed for %s", h.name, e.For)
		h.gate, h.passes = true, w.now.Add(e.For)
	}
}

// recover ends what a host had for a while.
func (w *World) recover(h *host) {
	over := func(at *time.Time) bool {
		if !w.hasPassed(*at) {
			return false
		}
		*at = time.Time{}
		return true
	}
	if over(&h.returns) {
		w.comeBack(h)
	}
	if over(&h.speaks) {
		h.silent, h.nodeGone = time.Time{}, false
	}
	if over(&h.shown) {
		h.hidden = time.Time{}
	}
	if over(&h.freed) {
		h.disowned = true
	}
	if over(&h.ready) {
		h.unready = time.Time{}
	}
	if over(&h.well) {
		h.sick = false
	}
	if over(&h.passes) {
		h.gate = false
	}
}

// restart makes the controller forget what it saw.
func (w *World) restart() {
	w.seen = map[string]sight{}
	w.looks = nil
	w.silentSince = time.Time{}
	w.space = room{full: w.space.full}
	w.archive.began, w.archive.due, w.archive.read, w.archive.deletes = time.Time{}, time.Time{}, false, nil
}

func (w *World) number(n int) *host {
	return first(w.hosts, func(h *host) bool { return h.number == n })
}

func (w *World) named(name string) *host {
	return first(w.hosts, func(h *host) bool { return h.name == name })
}
