package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What operators do, and what happens around the machines, beside the events of world.go.
const (
	LoseStatus   Kind = "lose status"   // of the group: whether it was initialised is found again
	DeleteLeader Kind = "delete leader" // the machine on which etcd's leader runs
	DeleteJoiner Kind = "delete joiner" // a machine that is on its way
	DeleteMany   Kind = "delete many"   // N machines at once, the oldest
	Unmark       Kind = "unmark"        // machine N, which somebody marked
	SetSurge     Kind = "set surge"     // to N
	SetParallel  Kind = "set parallel"  // joins, to N
	SetDomains   Kind = "set domains"   // to the first N of a, b, c
	SetRepair    Kind = "set repair"    // to at most N in a row
	Invalid      Kind = "invalid"       // the spec is refused For a while; N 1: machines can be made all the same
	NoTemplate   Kind = "no template"   // the machine template is missing, For a while
	NoAuthority  Kind = "no authority"  // the authority's secret is missing, For a while
	NoInfra      Kind = "no infra"      // the cluster's infrastructure is not ready, For a while
	NoEndpoint   Kind = "no endpoint"   // the endpoint is not known, For a while
	Alarm        Kind = "alarm"         // the member of machine N has no space, For a while
	BlindAPI     Kind = "blind api"     // the API server cannot be asked, For a while
	BlindMember  Kind = "blind member"  // the member of machine N cannot be asked, For a while
	Silent       Kind = "silent"        // the kubelet of machine N, For a while, or for ever
	StopEtcd     Kind = "stop etcd"     // on machine N, for ever
	DeleteNode   Kind = "delete node"   // of machine N
	Trouble      Kind = "trouble"       // the provider reports a failure of machine N, For a while
	StripHook    Kind = "strip hook"    // of machine N
	DropMember   Kind = "drop member"   // of machine N, by hand
	AddMember    Kind = "add member"    // by hand, that never starts; N even: a learner
	Reidentify   Kind = "reidentify"    // machine N gets another member, the old one stays in the list
	Hide         Kind = "hide"          // machine N has lost its labels, For a while
	Disown       Kind = "disown"        // machine N has lost its owner
	OrphanGroup  Kind = "orphan group"  // delete the group, and leave its machines, which takes the garbage collector For at most
	Corrupt      Kind = "corrupt"       // the data of the member of machine N differ from then on
	Forbid       Kind = "forbid"        // permissions in the cluster are gone, that of forwarding ports among them
	Upstream     Kind = "upstream"      // upstream's controller runs in our place, For a while
	Recreate     Kind = "recreate"      // the group is made again; its machines name the one before as owner, For at most
)

// operations are the kinds of events that are drawn beside those of world.go.
var operations = []Kind{
	LoseStatus, LoseStatus, DeleteLeader, DeleteJoiner, DeleteMany, Unmark, SetSurge, SetParallel, SetDomains, SetRepair, Invalid, Invalid,
	NoTemplate, NoAuthority, NoInfra, NoEndpoint, Alarm, BlindAPI, BlindMember, Silent, Silent, StopEtcd, DeleteNode, Trouble,
	StripHook, DropMember, AddMember, Reidentify, Hide, Disown, OrphanGroup, Corrupt, Forbid, Upstream, Recreate,
}

// operation draws one of them.
func (s *Setup) operation(r *rand.Rand) Event {
	e := Event{Kind: operations[r.Intn(len(operations))], N: 1 + r.Intn(8), For: randomSpan(r)}
	switch e.Kind {
	case SetSurge, Invalid:
		e.N = r.Intn(2)
	case SetParallel, SetDomains, SetRepair, DeleteMany:
		e.N = r.Intn(4)
	case Silent:
		if r.Intn(2) == 0 {
			e.For = 1000 * time.Hour
		}
	case OrphanGroup:
		if r.Intn(4) > 0 {
			e.Kind = DeleteGroup
		}
	}
	return e
}

// lasting is what lasts for a while.
type lasting struct {
	kind  Kind
	n     int
	until time.Time
}

// lasts reports whether something lasts; n: of that machine, 0: of the cluster.
func (w *World) lasts(kind Kind, n int) bool {
	for _, l := range w.lasting {
		if l.kind == kind && l.n == n && w.now.Before(l.until) {
			return true
		}
	}
	return false
}

// prolong lets something last for a while.
func (w *World) prolong(e Event, n int) {
	w.lasting = append(w.lasting, lasting{e.Kind, n, w.now.Add(e.For)})
}

// operate lets an operation happen. It reports whether the event was one.
func (w *World) operate(e Event) bool {
	if w.finished {
		return true
	}
	switch e.Kind {
	case LoseStatus:
		w.forgot = w.forgot || len(w.hosts) == 0 || isEvident(w.hosts)
	case SetSurge, SetParallel, SetDomains, SetRepair:
		w.set(e)
	case Invalid, NoTemplate, NoInfra, NoEndpoint, BlindAPI:
		w.tell("%s %d for %s", e.Kind, e.N, e.For)
		w.prolong(e, 0)
		w.replaceable = e.N == 1
	case NoAuthority:
		w.loseAuthority(e)
	case AddMember:
		w.addByHand(e.N%2 == 0)
	case OrphanGroup, Upstream, Recreate:
		w.changeHands(e)
	case Forbid:
		w.forbidden = w.initialised
	case DeleteLeader, DeleteJoiner, DeleteMany:
		w.deleteSome(e)
	default:
		return w.operateOn(e)
	}
	w.tell("%s %d", e.Kind, e.N)
	return true
}

// loseAuthority takes the authorities of a cluster away for a while.
func (w *World) loseAuthority(e Event) {
	if w.initialised {
		w.tell("%s for %s", e.Kind, e.For)
		w.prolong(e, 0)
	}
}

// set changes what the user wants.
func (w *World) set(e Event) {
	switch e.Kind {
	case SetSurge:
		w.setup.Surge = e.N
	case SetParallel:
		w.setup.MaxParallel = e.N
	case SetDomains:
		w.setup.Domains = []string{"a", "b", "c"}[:e.N]
	case SetRepair:
		w.setup.Repair.Most = e.N
	}
}

// operateOn is what happens to one machine. It reports whether the event is an operation.
func (w *World) operateOn(e Event) bool {
	if !slices.Contains(operations, e.Kind) {
		return false
	}
	if h := w.number(e.N); h != nil {
		w.tell("%s: %s for %s", h.name, e.Kind, e.For)
		w.changeMachine(e, h)
		w.changeHost(e, h)
	}
	return true
}

// changeMachine is what happens to the Machine object of a host, and to its Node.
func (w *World) changeMachine(e Event, h *host) {
	switch e.Kind {
	case Unmark:
		if h.byHand {
			h.marked, h.byHand = "", false
		}
	case Trouble:
		if h.stage == up { // before, it may be what ends the bootstrap
			w.prolong(e, e.N)
		}
	case Hide:
		if w.mayHide() {
			h.hidden, h.shown = w.now, w.now.Add(e.For)
		}
	case Disown:
		h.disowned = true
	case DeleteNode:
		h.nodeGone = !h.node.IsZero() && h.stage == up
	case StripHook:
		if h.deleting {
			h.forced = true
			w.release(h)
		} else {
			h.hook = false
		}
	}
}

// mayHide: if a machine could not be seen, something else would tell that there is one more.
func (w *World) mayHide() bool { return !w.setup.External && w.initialised && !w.forgot }

// changeHost is what happens to what runs on a host.
func (w *World) changeHost(e Event, h *host) {
	switch e.Kind {
	case Alarm:
		w.prolong(e, e.N)
		spacious{w}.fill(h)
	case BlindMember:
		w.prolong(e, e.N)
	case Silent:
		if !h.node.IsZero() && h.alive() && h.silent.IsZero() {
			h.silent, h.speaks = w.now, w.now.Add(e.For)
		}
	case Reidentify:
		w.reidentify(h)
	default:
		if h.member != nil {
			w.changeMember(e, h.member)
		}
	}
}

// changeMember is what happens to a host's etcd.
func (w *World) changeMember(e Event, m *member) {
	switch e.Kind {
	case StopEtcd:
		if m.running && m.host.stage == up {
			w.stop(m)
		}
	case DropMember:
		if !m.removed && w.mayRemove(m) == nil {
			w.take(m)
			w.struck = append(w.struck, m)
		}
	case Corrupt:
		m.corrupt = m.corrupt || m.running && !m.learner
	}
}

// deleteSome is what a person deletes who thinks of the machines' role.
func (w *World) deleteSome(e Event) {
	for i, h := range append([]*host(nil), w.hosts...) {
		if !w.isMeant(e, i, h) {
			continue
		}
		w.remove(h)
		if e.Kind == DeleteJoiner {
			return
		}
	}
}

// isMeant: the host of an index is one of those that a person deletes by their role.
func (w *World) isMeant(e Event, i int, h *host) bool {
	switch e.Kind {
	case DeleteLeader:
		return h.member != nil && h.member == w.leader
	case DeleteJoiner:
		return h.stage != up
	case DeleteMany:
		return i < e.N
	}
	return true
}

// The host's name of a member that was added by hand and never starts.
const nobody = "nobody"

// addByHand adds a member that never starts.
func (w *World) addByHand(learner bool) {
	if w.initialised && !w.setup.External && w.mayAdd(true) {
		w.add(&host{name: nobody, dead: w.now}, learner)
	}
}

// reidentify gives a host another member: its data was lost, and the old member stays in the list.
func (w *World) reidentify(h *host) {
	m := h.member
	if m == nil || m.removed || !m.running || h.stage != up || h.deleting || !w.mayAdd(true) {
		return
	}
	w.stop(m)
	if !w.hasQuorum() {
		w.run(m)
		return
	}
	h.member = w.add(h, false)
	w.run(h.member)
}

// isOurs: a host's machine is the group's, and can be seen to be.
func (w *World) isOurs(h *host) bool { return !h.disowned && h.hidden.IsZero() }

// surge is what a rollout may have more than wanted: with fewer than three it must have one.
func (w *World) surge() int {
	if w.replicas < 3 {
		return 1
	}
	return w.setup.Surge
}

// addAround is what can be seen of what is around the machines.
func (w *World) addAround(o *plan.Observed) {
	if w.lasts(Invalid, 0) {
		o.Want.Refused = plan.Refusal{Reason: "InvalidVersion", Message: "spec.version: not a version", Replaceable: w.replaceable}
	}
	if w.lasts(NoTemplate, 0) {
		o.Cluster.Template = "there is no template"
	}
	if w.lasts(NoInfra, 0) {
		o.Cluster.Infrastructure = false
	}
	if w.lasts(NoEndpoint, 0) {
		o.Cluster.Endpoint = ""
	}
	if w.lasts(BlindAPI, 0) {
		o.Cluster.Reachable = false
	}
	if w.forgot {
		o.Group.Initialized, o.Group.New = w.isProvable(), false
	}
}

// isProvable: a machine is there that joined, which proves that there is a cluster.
func (w *World) isProvable() bool {
	return w.setup.Provable && slices.ContainsFunc(w.hosts, func(h *host) bool { return !h.first && !h.held && w.isOurs(h) })
}

// isMissed: a machine cannot be seen for so long that it counts as gone, or cannot be told
// from another that has no Node yet.
func (w *World) isMissed(h *host) bool {
	if h.hidden.IsZero() {
		return false
	}
	alone := func(o *host) bool { return o.node.IsZero() || o.member == nil || o.member.removed }
	others := slices.ContainsFunc(w.hosts, func(o *host) bool { return o.hidden.IsZero() && alone(o) })
	return others || alone(h) || !w.now.Before(h.hidden.Add(20*time.Second))
}

// isListed: etcd's list tells of a machine that cannot be seen: its member is there, and no machine that can
// be seen lacks one.
func (w *World) isListed(h *host) bool {
	listed := !h.hidden.IsZero() && h.member != nil && !h.member.removed
	return listed && !slices.ContainsFunc(w.hosts, func(o *host) bool { return o.hidden.IsZero() && !w.hasOwn(o) })
}

// isReplaceable: what a machine needs that takes another's place is there.
func (w *World) isReplaceable() bool {
	return !w.lasts(NoTemplate, 0) && !w.lasts(NoAuthority, 0) && !w.lasts(NoInfra, 0) && !w.lasts(NoEndpoint, 0)
}

// findAgain is what the controller finds by itself, and puts right.
func (w *World) findAgain() {
	if w.forgot && w.reachable() && !w.lasts(BlindAPI, 0) {
		w.forgot = false
	}
	if w.forgot && len(w.hosts) == 0 {
		w.initialised, w.members, w.leader = false, nil, nil // there is nothing left that another could harm
	}
	for _, h := range w.hosts {
		h.hook = h.hook || w.isStaying(h)
	}
}

// judgeAround: nothing is begun that is refused, and nothing taken away that cannot be replaced.
func (w *World) judgeAround(s plan.Step) {
	if w.ending() || !w.initialised || isOfRecovery(s) {
		return
	}
	refused := w.isRefused()
	switch s.Verb {
	case plan.Delete:
		if h := w.named(s.Machine); h != nil && !h.deleting {
			w.judgeTaking(h, s, refused)
		}
	case plan.Create:
		w.judgeNew(s, refused)
	case plan.UpdateInPlace:
		w.judgeNew(s, refused && !w.named(s.Machine).isBegunInPart())
	case plan.Write:
		if writes(s, kubeadmConfig) || writes(s, addons) {
			w.judgeNew(s, refused)
		}
	}
}

// isRefused: nothing is begun that the spec asks for.
func (w *World) isRefused() bool { return w.lasts(Invalid, 0) || !w.isOperatorContent() }

// mayRepair: although the spec is refused, a machine can be replaced.
func (w *World) mayRepair() bool { return w.replaceable || !w.lasts(Invalid, 0) }

// judgeNew: nothing of a refused spec is begun, but for the repair of a machine where that may go on, and
// nothing for which something is missing.
func (w *World) judgeNew(s plan.Step, refused bool) {
	if refused && (!w.mayRepair() || w.repairing == nil) {
		w.blame("%s, while the spec is refused", s)
	}
	if s.Verb == plan.Create && !w.isReplaceable() {
		w.blame("%s, and what it needs is missing", s)
	}
}

// judgeTaking: what is taken away by our own choice may be, and can be replaced.
func (w *World) judgeTaking(h *host, s plan.Step, refused bool) {
	if refused && (h.marked == "" || !w.mayRepair()) {
		w.blame("%s, while the spec is refused", s)
	}
	if !w.isReplaceable() && w.without(h).staying < w.replicas {
		w.blame("%s, and nothing could take its place", s)
	}
}
