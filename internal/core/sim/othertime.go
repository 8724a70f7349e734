package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The management cluster is restored from an older state: what it knows is of the time of its backup, and the cluster is of now. Machines
// that came since are unknown, those that went are known again, and what was noted since is not there. Random draws none of it; Restored
// adds it.
const (
	Backup  Kind = "backup"  // of the management cluster
	Restore Kind = "restore" // of the last backup; machines that are not known then go For a while later, by hand
)

// restoredSalt keeps what is drawn of backups apart from what else is drawn of a seed.
const restoredSalt = 0x0d1e

// backup is what a backup of the management cluster has.
type backup struct {
	objects        []object
	replicas, spec int
	last           int
	begun          string
	begunSpec      int
	begunHeld      bool
	repairing      *repair
	replaced       []plan.Replacement
	noted          plan.Backup
	recoveries     []recovery
	choices        []plan.Choice
	power          power
}

// object is what a backup has of a machine: the host, and its objects as they were. noted: that its member was removed is noted on it.
type object struct {
	host  *host
	was   host
	noted bool
}

// Restored makes of a seed the Setup that Random makes, and has the management cluster restored, once or twice.
func Restored(seed int64) Setup {
	s := Random(seed)
	s.Sturdy = false
	r := rand.New(rand.NewSource(seed ^ restoredSalt))
	events, at := s.Script, time.Duration(0)
	for range 1 + r.Intn(2) {
		at += time.Duration(60+r.Intn(1800)) * time.Second
		events = append(events, Event{At: at, Kind: Backup})
		at += time.Duration(1+r.Intn(pick(r, 20, 300, 3600))) * time.Second
		events = append(events, Event{At: at, Kind: Restore, For: randomSpan(r)})
	}
	for range 1 + r.Intn(3) { // something happens in between
		e := Event{At: time.Duration(r.Int63n(int64(at))), Kind: pick(r, DeleteMachine, Mark, Kill, Change, Scale), N: 1 + r.Intn(5),
			For: randomSpan(r)}
		if e.Kind == Scale {
			e.N = pick(r, 1, 3, 5)
		}
		events = append(events, e)
	}
	s.Script = inOrder(events...)
	s.drawDecisions(seed, Restore)
	return s
}

// befallOtherTime lets a backup or a restoration happen. It reports whether the event was one.
func (w *World) befallOtherTime(e Event) bool {
	switch e.Kind {
	case Backup:
		w.keep()
	case Restore:
		w.restore(e.For)
	default:
		return false
	}
	return true
}

// keep makes a backup. One of a time at which nothing was initialised, or of which that is not known, is none: who restores it makes
// another cluster.
func (w *World) keep() {
	if !w.initialised || w.forgot || w.deleting {
		return
	}
	w.tell("the management cluster is backed up")
	b := &backup{
		replicas: w.replicas, spec: w.spec, last: w.last, begun: w.begun, begunSpec: w.begunSpec, begunHeld: w.begunHeld, repairing: w.repairing,
		replaced: slices.Clone(w.limits.noted), noted: w.archive.noted, choices: slices.Clone(w.decided.choices),
	}
	for _, h := range w.hosts {
		if h.hidden.IsZero() {
			b.objects = append(b.objects, object{host: h, was: *h, noted: h.member != nil && h.member.removed && !h.unnoted})
		}
	}
	for _, x := range w.recoveries.all {
		b.recoveries = append(b.recoveries, *x)
	}
	b.power = w.power
	b.power.machines = slices.Clone(w.power.machines)
	w.backup = b
}

// restore brings the state of the backup back.
func (w *World) restore(known time.Duration) {
	b := w.backup
	if b == nil || w.deleting || w.finished {
		return
	}
	w.tell("the management cluster is restored from its backup")
	if w.replicas != b.replicas {
		w.tell("replicas: %d", b.replicas)
		w.replicas = b.replicas
	}
	if w.spec != b.spec {
		w.change(b.spec)
	}
	w.upset()
	w.last, w.begun, w.begunSpec, w.begunHeld, w.repairing = b.last, b.begun, b.begunSpec, b.begunHeld, b.repairing
	for _, h := range slices.Clone(w.hosts) {
		if !slices.ContainsFunc(b.objects, func(o object) bool { return o.host == h }) {
			w.unknow(h, known)
		}
	}
	for _, o := range b.objects {
		w.recall(o)
	}
	w.recallLimit(b.replaced)
	w.archive.noted = b.noted
	w.recoveries.all = nil
	for _, x := range b.recoveries {
		w.recoveries.all = append(w.recoveries.all, &x)
	}
	w.decided.choices = slices.Clone(b.choices)
	decider{w}.mark()
	sleeper{w}.recall(b.power)
	w.restart()
}

// recallLimit brings the record of replacements back. The rules cannot count those that it does not have, or only has of an earlier time.
func (w *World) recallLimit(replaced []plan.Replacement) {
	l := &w.limits
	l.version++
	l.noted = slices.Clone(replaced)
	var truly []plan.Replacement
	for _, n := range l.noted {
		if slices.ContainsFunc(l.truly, func(r plan.Replacement) bool { return r.Machine == n.Machine }) {
			truly = append(truly, plan.Replacement{Machine: n.Machine, At: n.At.Add(-w.setup.Ahead)})
		}
	}
	l.truly = truly
}

// unknow takes the objects of a host away, which lives on. One that left no trace in the cluster goes at once: it could not be known
// that its name is taken, and infrastructure refuses the name, which no world has.
func (w *World) unknow(h *host, known time.Duration) {
	if !w.tellsOf(h) || h.vanished || w.setup.External {
		h.forced = true
		w.forget(h)
		return
	}
	if h.hidden.IsZero() {
		w.tell("%s is not known any more", h.name)
		h.hidden = w.now
	}
	h.shown, h.ends, h.update = time.Time{}, w.now.Add(known), nil
	if h.hook {
		h.deleting = false
	}
}

// isForgotten: the management cluster was restored and has no object of a host; one whose labels are lost comes back by itself.
func (h *host) isForgotten() bool { return !h.hidden.IsZero() && h.shown.IsZero() }

// tellsOf: a Node or a member has the name of a host.
func (w *World) tellsOf(h *host) bool {
	return h.hasNode() && !w.setup.EtcdOnly || h.member != nil && h.member.name != "" && !h.member.removed
}

// hasNode: the cluster has the Node of a host.
func (h *host) hasNode() bool { return !h.node.IsZero() && !h.nodeGone }

// recall brings back what the backup has of a machine, whether its host is there or not.
func (w *World) recall(o object) {
	h, was := o.host, o.was
	h.deleting, h.hook, h.theirs, h.drained, h.released, h.gone, h.forced = was.deleting, was.hook, was.theirs, was.drained, was.released,
		was.gone, was.forced
	h.marked, h.byHand, h.chosen, h.replaced, h.retries, h.inARow = was.marked, was.byHand, was.chosen, was.replaced, was.retries, was.inARow
	h.unnoted = h.member != nil && h.member.removed && !o.noted
	h.hidden, h.shown, h.ends = time.Time{}, time.Time{}, time.Time{}
	if slices.Contains(w.hosts, h) {
		return
	}
	w.tell("nothing is left of %s, and it is known again", h.name)
	h.vanished, h.update = true, nil
	h.nodeGone = !h.node.IsZero()
	w.hosts = append(w.hosts, h)
	slices.SortStableFunc(w.hosts, func(a, b *host) int { return a.created.Compare(b.created) })
}

// endUnknown is what a person does at last about a host of no known machine: its member is removed, where etcd lets it go, it is powered
// off, and its Node goes.
func (w *World) endUnknown(h *host) {
	if !w.hasPassed(h.ends) {
		return
	}
	h.ends = time.Time{}
	if m := h.member; m != nil && !m.removed {
		if err := w.mayRemove(m); err != nil {
			w.tell("nobody can remove the member of %s: %v", h.name, err)
			if h.tries++; h.tries < 10 {
				h.ends = w.now.Add(time.Minute << h.tries)
			}
			return
		}
		w.take(m)
		w.struck = append(w.struck, m)
	}
	w.tell("somebody ends %s, which is not known", h.name)
	h.forced = true
	w.forget(h)
}

// isUnknownVoter: no machine is known for a host whose member votes, and it cannot be ended so that the quorum stays.
func (w *World) isUnknownVoter(h *host) bool {
	return !h.hidden.IsZero() && h.ends.IsZero() && h.hasVoter()
}

// namesOfUnknown are the names of Nodes of no known machine.
func (w *World) namesOfUnknown(o *plan.Observed) {
	for _, h := range w.hosts {
		if !h.hidden.IsZero() && !w.setup.EtcdOnly && h.hasNode() {
			o.Cluster.Names = append(o.Cluster.Names, h.name)
		}
	}
	slices.Sort(o.Cluster.Names)
}

// noteNumber is what the group's object remembers of names that were seen.
func (w *World) noteNumber(o plan.Observed) {
	if o.Group.Initialized && !o.Group.Deleting && !o.Group.Paused {
		w.last = max(w.last, plan.HighestNumber(o))
	}
}

// judgeTwice: no host gets the name of a machine or of a member that is there. The rules cannot know the name of a machine of the cluster
// before a seed began another one, which has no trace of it.
func (w *World) judgeTwice(s plan.Step) {
	if s.Seed {
		return // while no API server answers neither can be known
	}
	if h := w.named(s.Machine); h != nil && !h.hidden.IsZero() && (h.old == nil || w.tellsOf(h)) {
		w.blame("%s, and there is a machine of that name, which is not known", s)
	}
	if i := slices.IndexFunc(w.members, func(m *member) bool { return m.name == s.Machine }); i >= 0 {
		w.blame("%s, and that is the name of member %s", s, w.members[i].id)
	}
}
