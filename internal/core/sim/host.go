package sim

import (
	"fmt"
	"slices"
	"time"
)

// Stage is how far a host has come.
type Stage int

// The stages of a host that joins as a learner. One that initialises, or joins
// an external etcd, or as a voter, leaves some out.
const (
	booting  Stage = iota // the machine starts
	queuing               // kubeadm asks etcd to take the member, again and again
	starting              // the member is in the list, etcd does not run yet
	syncing               // etcd runs as a learner
	raising               // the member votes, the API server comes up
	settling              // the Node is registered, its components are not all ready
	up
)

// String names the stage.
func (s Stage) String() string {
	return []string{"booting", "queuing", "starting", "syncing", "raising", "settling", "up"}[s]
}

// kubeadm gives up after this long in the same stage, and the kubelet counts as lost.
const (
	kubeadmGivesUp = 2 * time.Minute
	nodeLost       = 40 * time.Second
)

// A host is one machine: the Machine object, and what runs on it.
type host struct {
	name, domain string
	number       int
	first        bool // it initialises the cluster
	held         bool // it was made ahead, and is held back
	created      time.Time
	started      time.Time // when that ended; zero: it was not
	spec         int       // that it was made of
	minor        int       // the version of its etcd
	dropped      bool      // that was not wanted at times since

	// the object
	deleting bool
	hook     bool
	theirs   bool      // an operator's hook holds it as well
	drained  time.Time // when the hook falls due
	released time.Time // when our hook was taken away; zero until then
	gone     time.Time // when host and object go; zero until the hook is taken away, or never
	forced   bool      // somebody else took the hook away
	marked   string    // why somebody wants it replaced
	byHand   bool      // a person does
	chosen   bool      // a person wants it to go when one must
	replaced time.Time // when the one was given up that it took the place of
	retries  int       // how many before that one
	inARow   int       // the same, as the oracle counts

	// the host
	stage    Stage
	due      time.Time // when the stage ends; zero: when a condition is met
	patience time.Time // when kubeadm gives up; zero: never
	dead     time.Time // when it died, or went away for a while
	returns  time.Time // when it is back; zero: never
	rebooted bool      // it starts again then
	failed   string    // what kubeadm said when it gave up
	stuck    bool      // it makes no progress any more
	node     time.Time // when its Node was registered
	unready  time.Time // since when its Node is not ready
	ready    time.Time // when that ends by itself; zero: never
	sick     bool      // a component is not healthy
	well     time.Time // when that ends by itself
	gate     bool      // a gate is not passed
	passes   time.Time // when that ends by itself
	silent   time.Time // since when its kubelet does not report
	speaks   time.Time // when that ends by itself
	nodeGone bool      // somebody deleted its Node
	hidden   time.Time // since when its machine has no labels
	shown    time.Time // when it has them again
	tries    int       // how often that was tried
	ends     time.Time // when a person ends it, whose machine is not known; zero: never
	vanished bool      // nothing is left of it, and its infrastructure knows that
	disowned bool      // its machine has no owner, or not the group as it is now
	freed    time.Time // when the garbage collector takes the owner off it; zero: never, or it has
	unnoted  bool      // what we noted on its machine is not there
	update   *inPlace  // its update in place; nil: there is none, or it is recorded
	seededBy int       // the recovery by whose seed it was made; 0: none
	seed     source    // that it restores
	givenUp  bool      // for a recovery
	old      *member   // what it has of a cluster before
	member   *member
	knows    []*member // whom kubeadm asks: those who were there when it began

	unawaited bool // a person decided to wait for its infrastructure no longer
}

func (h *host) alive() bool { return h.dead.IsZero() }

// reports: its Node is there, and its kubelet reports.
func (h *host) reports() bool { return h.alive() && h.silent.IsZero() && !h.nodeGone }

// finds: kubeadm, as it joins, knows a member that answers, one aside.
func (h *host) finds(but *member) bool {
	return slices.ContainsFunc(h.knows, func(m *member) bool { return m != but && m.running && !m.removed })
}

// count is how many of the hosts are as is says.
func (w *World) count(is func(*host) bool) int {
	n := 0
	for _, h := range w.hosts {
		if is(h) {
			n++
		}
	}
	return n
}

// first returns the first of some hosts that is so; nil: none is.
func first(hosts []*host, is func(*host) bool) *host {
	if i := slices.IndexFunc(hosts, is); i >= 0 {
		return hosts[i]
	}
	return nil
}

// broken: it will never come up, and somebody must delete it.
func (h *host) broken() bool { return !h.alive() || h.stuck || h.failed != "" }

// ails: it is not all that it should be, or somebody wants another in its place.
func (h *host) ails() bool {
	return h.broken() || h.sick || !h.unready.IsZero() || h.marked != "" || !h.silent.IsZero() || h.nodeGone || h.isHeadless() || h.isCorrupt()
}

// isCorrupt: its member has other data than the others.
func (h *host) isCorrupt() bool { return h.member != nil && h.member.corrupt && !h.member.removed }

// isHeadless: its member has joined, and its etcd is stopped for good.
func (h *host) isHeadless() bool {
	m := h.member
	if m == nil || h.stage < raising {
		return false
	}
	return h.stage == up && m.removed || !m.running && m.back.IsZero()
}

// serving: its API server could answer.
func (w *World) serving(h *host) bool {
	if h.stage < settling || !h.alive() || h.isAway() || w.lasts(APIDown, h.number) {
		return false
	}
	return w.setup.External || h.member != nil && h.member.running
}

// took draws how long a stage takes.
func (w *World) took(s Stage, number int) time.Duration {
	least := [...]int{booting: 6, starting: 2, syncing: 1, raising: 4, settling: 3, up: 0}
	most := [...]int{booting: 45, starting: 12, syncing: 9, raising: 14, settling: 18, up: 0}
	// A busy host starts etcd late, and a large store takes its time to arrive.
	slow := [...]int{booting: 200, starting: 40, syncing: 110, raising: 60, settling: 60, up: 0}
	if s == booting && w.setup.Boots[number] > 0 {
		return w.setup.Boots[number]
	}
	if s == booting && w.setup.Boot > 0 && w.rand.Intn(3) == 0 {
		return w.span(w.setup.Boot)
	}
	if w.rand.Intn(20) == 0 && !w.setup.Faultless {
		return time.Duration(slow[s]) * time.Second
	}
	return time.Duration(least[s]+w.rand.Intn(1+most[s]-least[s])) * time.Second
}

// span draws how long something takes that takes so long at most.
func (w *World) span(most time.Duration) time.Duration {
	return time.Duration(1+w.rand.Intn(int(most/time.Second))) * time.Second
}

// enter begins a stage, in which the host's fate may strike.
func (w *World) enter(h *host, s Stage) {
	h.stage, h.due, h.patience = s, w.now.Add(w.took(s, h.number)), time.Time{}
	switch s {
	case queuing:
		h.due, h.patience = time.Time{}, w.now.Add(kubeadmGivesUp)
		h.knows = append([]*member(nil), w.members...)
		if w.setup.NodeFirst {
			h.node = w.now
		}
	case starting, syncing:
		h.patience = w.now.Add(kubeadmGivesUp)
		if w.setup.EtcdOnly && s == syncing {
			h.patience = time.Time{} // etcd runs, whatever promotes it and when
		}
	case settling:
		w.register(h)
	case up:
		h.due = time.Time{}
		if w.setup.Gates > 0 {
			h.gate, h.passes = true, w.now.Add(w.span(w.setup.Gates))
		}
	}
	w.meetFate(h)
}

// register registers a host's Node, unless kubeadm did before.
func (w *World) register(h *host) {
	if h.node.IsZero() {
		h.node = w.now
	}
	if w.setup.NodeOnly && h.number%2 == 1 {
		h.due = w.now // its Node is ready as soon as it is registered
	}
}

// meetFate lets a host's fate strike, if it strikes at this stage.
func (w *World) meetFate(h *host) {
	if fate, ok := w.fate(h); ok && fate.At == h.stage {
		w.strike(h, fate)
	}
}

// strike is a host's fate.
func (w *World) strike(h *host, fate Fate) {
	w.upsetBy(h)
	switch {
	case fate.Dies:
		w.tell("%s dies while %s", h.name, h.stage)
		w.kill(h)
	case h.stage == up && w.setup.EtcdOnly: // nothing but its member runs there
	case h.stage == up && fate.Sick && !w.setup.NodeOnly:
		w.tell("%s has a component that is not healthy", h.name)
		h.sick = true
	case h.stage == up:
		w.tell("%s has a node that is not ready", h.name)
		h.unready = w.now
	default:
		w.tell("%s makes no progress any more while %s", h.name, h.stage)
		h.stuck, h.due = true, time.Time{}
	}
}

// progress moves a host on if it can now. It reports whether anything changed.
func (w *World) progress(h *host) bool {
	switch {
	case !h.alive() || h.failed != "":
		return false
	case w.hasPassed(h.patience):
		return w.giveUp(h)
	case h.stuck, !w.isDue(h):
		return false
	}
	return w.leave(h)
}

// isDue: a host's stage can end. One that waits for its turn goes on as soon as etcd takes another member.
func (w *World) isDue(h *host) bool {
	if h.stage == queuing {
		return w.mayAdd(!w.setup.Serial) && h.finds(nil) && w.canRead(h)
	}
	return w.hasPassed(h.due)
}

// leave ends a stage, unless etcd does not let it.
func (w *World) leave(h *host) bool {
	if !w.mayLeave(h) || w.setup.EtcdOnly && h.stage == syncing {
		return false
	}
	switch h.stage {
	case booting:
		w.booted(h)
	case queuing:
		h.member = w.add(h, !w.setup.Serial)
		w.enter(h, starting)
	case starting:
		w.run(h.member)
		h.member.data = w.keeps
		w.enter(h, syncing)
	case syncing:
		h.member.learner = false
		w.enter(h, raising)
	case raising:
		w.enter(h, settling)
		if h.seededBy > 0 {
			w.kubeadm, w.addons = h.spec, h.spec
		}
		// A host that goes while it initialises has initialised nothing that stays.
		w.initialise(h)
	case settling:
		w.enter(h, up)
	}
	return true
}

// mayLeave: etcd lets a host's stage end.
func (w *World) mayLeave(h *host) bool {
	switch h.stage {
	case booting:
		return !h.held && (h.seededBy == 0 || recovering{w}.fetches(h))
	case starting:
		return !h.member.removed && w.mayStart(h)
	case syncing:
		return w.mayPromote(h.member)
	case raising:
		return w.setup.External || h.member.running && w.hasLeader()
	}
	return true
}

// booted is where kubeadm begins.
func (w *World) booted(h *host) {
	switch {
	case !w.begin(h):
	case w.setup.External:
		w.enter(h, raising)
	case h.seededBy > 0:
		recovering{w}.plant(h)
		w.enter(h, raising)
	case h.first:
		w.members, w.leader = nil, nil
		h.member = w.add(h, false)
		w.run(h.member)
		w.begins(h.member)
		if w.setup.EtcdOnly {
			w.rise(h)
			return
		}
		w.enter(h, raising)
	default:
		w.enter(h, queuing)
	}
}

// giveUp is kubeadm's end.
func (w *World) giveUp(h *host) bool {
	h.failed = fmt.Sprintf("kubeadm gave up while %s", h.stage)
	h.patience, h.due = time.Time{}, time.Time{}
	w.upsetBy(h)
	w.tell("%s: kubeadm gives up while %s", h.name, h.stage)
	return true
}

// kill loses a host with all on it.
func (w *World) kill(h *host) {
	if !h.alive() && h.returns.IsZero() {
		return
	}
	h.dead, h.returns, h.due, h.patience = w.now, time.Time{}, time.Time{}, time.Time{}
	w.upsetBy(h)
	if h.member != nil {
		w.stop(h.member)
	}
	if h.old != nil {
		w.stop(h.old)
	}
}

// away lets a host stand still, or start again, for a while.
func (w *World) away(h *host, reboots bool, how time.Duration) {
	if !h.alive() || h.stage == booting {
		return
	}
	h.dead, h.returns, h.rebooted = w.now, w.now.Add(how), reboots
	switch {
	case h.member == nil || !h.member.running:
	case reboots:
		w.stop(h.member)
	default:
		w.hang(h.member)
	}
	if h.old != nil {
		w.stop(h.old)
	}
}

// comeBack brings a host back with all on it. kubeadm does not begin again.
func (w *World) comeBack(h *host) {
	w.tell("%s is back", h.name)
	h.dead, h.nodeGone = time.Time{}, false
	if h.rebooted && h.stage < settling {
		h.stuck = true
	}
	if m := h.member; m != nil && !m.removed && !w.now.Before(m.back) && (m.hung || m.name != "") {
		w.run(m)
	}
	if h.old != nil {
		w.run(h.old)
	}
}

// age moves the object of a host on that is being deleted.
func (w *World) age(h *host) {
	if !h.deleting || h.hook || h.gone.IsZero() || w.now.Before(h.gone) {
		return
	}
	if h.givenUp && !h.vanished && w.rand.Intn(2) == 0 {
		w.kill(h) // its infrastructure is deleted, and its Machine goes later
		h.vanished, h.nodeGone, h.gone = true, !h.node.IsZero(), w.now.Add(time.Duration(1+w.rand.Intn(90))*time.Second)
		return
	}
	w.forget(h)
}

// forget removes a host that is gone, and its object.
func (w *World) forget(h *host) {
	w.judgeLoss(h)
	w.went[h.number] = w.now.Sub(w.start)
	w.kill(h)
	for i, x := range w.hosts {
		if x == h {
			w.hosts = append(w.hosts[:i:i], w.hosts[i+1:]...)
			break
		}
	}
}

// remove asks for the deletion of a host: it is drained, and then its hook is due.
func (w *World) remove(h *host) {
	if h.deleting {
		return
	}
	h.deleting, h.drained = true, w.now
	if !h.hook {
		h.hook, h.forced = true, true // somebody stripped it
		w.release(h)
		return
	}
	if h.stage >= settling && h.alive() {
		h.drained = w.now.Add(time.Duration(1+w.rand.Intn(30)) * time.Second)
		if w.setup.Drain > 0 && w.rand.Intn(2) == 0 {
			h.drained = w.now.Add(w.span(w.setup.Drain))
		}
	}
}

// remains: it is being deleted, and its infrastructure never goes.
func (h *host) remains() bool { return h.deleting && !h.hook && h.gone.IsZero() }

// release takes the hook away: the infrastructure goes some time later, or never, and until then the host lives on.
func (w *World) release(h *host) {
	if !h.hook {
		return
	}
	h.hook, h.theirs, h.released = false, false, w.now
	h.gone = w.now.Add(time.Duration(1+w.rand.Intn(10)) * time.Second)
	switch {
	case w.setup.Remains[h.number]:
		h.gone = time.Time{}
	case w.setup.Leave > 0:
		h.gone = w.now.Add(w.span(w.setup.Leave))
	}
}
