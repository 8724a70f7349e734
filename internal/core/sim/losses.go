package sim

import (
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// What the oracle says of machines that are taken away: it counts those that would be left.

// left is what is left of a group without one of its hosts and those that go already.
type left struct {
	staying  int
	complete int   // of them that do their work
	held     int   // of those that go: they do their work, and stay until an API server can do it instead
	whole    int   // of them that can take the place of others in a rollout
	going    *host // one of which the voter is leaving
}

func (w *World) without(gone *host) left {
	var l left
	for _, h := range w.hosts {
		switch {
		case h == gone, w.isDoomed(h):
		case h.deleting:
			// Beside one that cannot be seen only what is to be replaced goes: its voter counts as gone, which judgeVoter holds to.
			if (h.hidden.IsZero() || gone.marked == "") && h.hasVoter() && !staysAlone(w, h) {
				l.going = h
			}
			if w.works(h) {
				l.held++
			}
		default:
			l.staying++
			if w.works(h) {
				l.complete++
			}
			if w.whole(h) {
				l.whole++
			}
		}
	}
	return l
}

// staysAlone: a host that is being deleted stays, because no other API server is known to be healthy.
func staysAlone(w *World, h *host) bool {
	works := func(o *host) bool { return o != h && w.works(o) }
	return !w.setup.EtcdOnly && w.isDrained(h) && !slices.ContainsFunc(w.hosts, works)
}

// hasVoter: the member of a host votes, whether it runs or not.
func (h *host) hasVoter() bool { return h.member != nil && !h.member.removed && !h.member.learner }

// works: a host does what it is there for, as far as anybody can know.
func (w *World) works(h *host) bool {
	if h.stage != up || h.sick || !w.seemsThere(h) || w.setup.NodeOnly && !h.unready.IsZero() {
		return false
	}
	return !w.hasPoorAPI(h) && w.etcdWorks(h)
}

// etcdWorks: the member of a host, where members are kept there, runs and has the data of the others.
func (w *World) etcdWorks(h *host) bool {
	return w.setup.External || h.member.running && !h.member.corrupt
}

// seemsThere: it cannot be known yet that a host, or its kubelet, does not report any more.
func (w *World) seemsThere(h *host) bool {
	switch {
	case h.vanished, h.nodeGone: // where the host vanished, its Node is gone, too
		return false
	case !h.silent.IsZero() && !w.now.Before(h.silent.Add(nodeLost)): // it may have died later
		return false
	}
	return h.alive() || w.now.Before(h.dead.Add(nodeLost))
}

// whole: it works, and has all that those of other specs have.
func (w *World) whole(h *host) bool {
	if !w.works(h) || !w.isReplaced(h) && h.gate {
		return false
	}
	if w.isReplaced(h) || h.unready.IsZero() {
		return true
	}
	return !slices.ContainsFunc(w.hosts, w.isOldAndReady)
}

// isOldAndReady: a host of another spec stays, and its Node is ready.
func (w *World) isOldAndReady(h *host) bool {
	return w.isReplaced(h) && !h.deleting && h.hidden.IsZero() && !h.node.IsZero() && h.unready.IsZero()
}

// judgeDelete: as many as are wanted stay, but that one may be missing in a rollout
// without surge and where one is broken. One that works is among them; one change at
// a time, with the quorum and with another leader.
func (w *World) judgeDelete(gone *host, s plan.Step) {
	w.judgeKept(gone, s)
	if gone.held {
		w.judgeDiscard(gone, s)
		return
	}
	if !w.initialised {
		if gone.marked == "" && gone.spec == w.spec {
			w.blame("%s, which may be about to initialise the cluster", s)
		}
		return
	}
	w.judgeLeft(gone, s)
	w.judgeChoice(gone, s)
	w.judgeLeast(gone, s)
	w.judgeRepair(gone, s)
	w.judgeVoter(gone, s)
	w.judgeOperated(gone, s)
}

// judgeLeft: enough is left when a machine goes.
func (w *World) judgeLeft(gone *host, s plan.Step) {
	l := w.without(gone)
	staying, whole := w.mustStay(gone)
	switch {
	case l.going != nil && w.mayAnswer(gone):
		w.blame("%s, while the voter of %s leaves", s, l.going.name)
	case gone.marked == "" && w.adrift() != "":
		w.blame("%s, and a person must decide about the voter %s first", s, w.adrift())
	case l.complete+l.held == 0:
		w.blame("%s would leave no complete machine", s)
	case l.staying < staying:
		w.blame("%s would leave %d machines of %d", s, l.staying, w.replicas)
	case l.whole < whole:
		w.blame("%s would leave %d whole machines of %d in a rollout", s, l.whole, w.replicas)
	}
}

// judgeChoice: of more machines than wanted none goes that works and is wanted, beside one that is broken for
// all to see or has not come up. That one would be left, and serves no client.
func (w *World) judgeChoice(gone *host, s plan.Step) {
	if !w.isWanted(gone) || !w.isPlainlyFit(gone) {
		return
	}
	for _, h := range w.hosts {
		if h != gone && w.isStaying(h) && w.isPlainlyBroken(h) {
			w.blame("%s, which works, and %s does not", s, h.name)
		}
	}
}

// judgeLeast: of outdated hosts none goes that carries all beside one of which everybody can see that it does not: its Node is not ready. A
// look that missed an answer does not show which of them carries more.
func (w *World) judgeLeast(gone *host, s plan.Step) {
	if w.blinded || !w.isReplaced(gone) || gone.marked != "" || gone.chosen || w.limits.most > 0 || !w.isPlainlyReady(gone) {
		return
	}
	for _, h := range w.hosts {
		least := h != gone && w.isStaying(h) && w.isReplaced(h) && h.marked == "" && h.stage == up && !h.unready.IsZero() && h.reports()
		if least {
			w.blame("%s, and the node of %s is not ready, which is outdated as well", s, h.name)
		}
	}
}

// isPlainlyReady: everybody can see that a host does its work, and that its Node is ready and its gates are passed.
func (w *World) isPlainlyReady(h *host) bool {
	return w.isPlainlyFit(h) && h.unready.IsZero() && !h.gate
}

// isWanted: a host is as it should be by its spec, and is to stay.
func (w *World) isWanted(h *host) bool { return h.marked == "" && !h.chosen && !w.isReplaced(h) }

// isPlainlyBroken: everybody can see that a host does not do its work.
func (w *World) isPlainlyBroken(h *host) bool {
	return h.stage < up || h.sick && h.reports() || w.isOwn(h) && w.answer(h.member) == plan.Unhealthy
}

// isSoundOn: the member of a host, where members are kept there, is proven healthy and raises no alarm.
func (w *World) isSoundOn(h *host) bool {
	return w.setup.External || w.isOwn(h) && w.answer(h.member) == plan.Healthy && len(w.alarms(h.member)) == 0
}

// isPlainlyFit: everybody can see that a host does its work, and its member too.
func (w *World) isPlainlyFit(h *host) bool { return h.reports() && w.works(h) && w.isSoundOn(h) }

// stillServes: a host works, or its voter does. Of a marked one whose voter cannot be asked it does not
// count: such a member keeps others from joining.
func (w *World) stillServes(h *host) bool {
	m := h.member
	if h.marked != "" && m != nil && w.isMute(m) {
		return false
	}
	return w.works(h) || m != nil && !m.learner && m.running && !m.corrupt
}

// neverUp: nothing tells that a machine was ever up. Without a Node it is its member that does, or that this was removed.
func (w *World) neverUp(h *host) bool {
	if w.setup.EtcdOnly && h.vanished && w.setup.Reports && h.failed == "" {
		return false // it cannot be known, as of one whose member was removed
	}
	// Of a machine that failed, as the provider says, it is not known whether its member was removed or never came.
	return h.node.IsZero() || w.setup.EtcdOnly && (h.member == nil || h.member.removed && (h.unnoted || w.lasts(Trouble, h.number)))
}

// missesSeat: the operator says that etcd is not healthy, and may wait for another host in the place of one that does not work.
func (w *World) missesSeat(h *host) bool {
	return w.setup.Operated && !w.works(h) && !w.isOperatorContent()
}

// mustStay is how many machines must stay, and how many of them whole, when one goes.
func (w *World) mustStay(gone *host) (staying, whole int) {
	serves := w.stillServes(gone)
	old, marked := w.isReplaced(gone), gone.marked != ""
	switch {
	case marked && (!serves || w.missesSeat(gone)), old && !serves && w.neverUp(gone):
		return 0, 0
	case marked, old && !w.works(gone):
		return w.replicas - 1, 0
	case old:
		return w.replicas - 1, w.replicas - 1 + w.surge()
	}
	return w.replicas, 0
}

// judgeRepair: not more often than the user allows.
func (w *World) judgeRepair(gone *host, s plan.Step) {
	limits, n := w.setup.Repair, w.inARow(gone)
	if !s.Repair || n == 0 {
		return
	}
	if limits.Most >= 0 && n > limits.Most {
		w.blame("%s is replacement %d in a row, at most %d are allowed", s, n, limits.Most)
	}
	if w.now.Before(gone.replaced.Add(limits.Period)) {
		w.blame("%s comes too early after the last", s)
	}
}

// inARow is how many were replaced before a host that broke before it was well for long.
func (w *World) inARow(h *host) int {
	if h.replaced.IsZero() || !w.now.Before(h.replaced.Add(w.setup.Repair.Healthy)) {
		return 0
	}
	return h.inARow + 1
}

// judgeVoter: the voter that goes with a host is not needed, and does not lead.
func (w *World) judgeVoter(gone *host, s plan.Step) {
	m := gone.member
	if w.setup.External || m == nil || m.removed {
		return
	}
	running := w.runningBut(m)
	w.judgeVoterless(m, true, s.String())
	switch {
	case gone.marked == "" && w.mayAnswer(gone) && !m.corrupt && w.isAlarmed():
		w.blame("%s, whose voter answers, and a member raises an alarm", s)
	case w.lost():
		w.blame("%s without quorum", s)
	case m == w.leader && running > 0:
		w.blame("%s would take the leader while another could lead", s)
	}
}

// isAlarmed: a member raises an alarm, so that the cluster takes no writes.
func (w *World) isAlarmed() bool {
	return slices.ContainsFunc(w.members, func(m *member) bool { return len(w.alarms(m)) > 0 })
}

// judgeAddons: they are never newer than a machine that is there, and that a person waits for.
func (w *World) judgeAddons() {
	for _, h := range w.hosts {
		if h.spec != w.spec && w.isOurs(h) && !h.unawaited {
			w.blame("the addons become of spec %d, and %s is of %d", w.spec, h.name, h.spec)
		}
	}
}

// judgeStop is asked where a rollout stands because nothing good can come of the spec:
// it has cost no more than one machine, and none where it may have one more.
func (w *World) judgeStop() {
	if !w.calm {
		return
	}
	old := w.count(func(h *host) bool { return h.spec != w.spec && w.works(h) && !h.deleting })
	// Who dies after it has come up was whole when others made way for it.
	died := slices.ContainsFunc(w.hosts, func(h *host) bool { return h.spec == w.spec && h.stage == up && !h.alive() })
	if least := w.replicas - 1 + w.surge(); old < least && !died {
		w.blame("a rollout that cannot succeed left %d whole machines of %d", old, w.replicas)
	}
	if there := (decider{w}).awaited(); there > w.replicas+w.surge() {
		w.blame("a rollout that cannot succeed left %d machines for %d", there, w.replicas)
	}
}

// judgeBalance is asked at the end of a rollout in which nothing failed: no failure
// domain has two machines more than another.
func (w *World) judgeBalance() {
	if !w.calm || len(w.setup.Domains) == 0 {
		return
	}
	count := map[string]int{}
	for _, h := range w.hosts {
		count[h.domain]++
	}
	least, most := len(w.hosts), 0
	for _, d := range w.setup.Domains {
		least, most = min(least, count[d]), max(most, count[d])
	}
	if most > least+1 {
		w.blame("after a rollout one failure domain has %d machines, another %d", most, least)
	}
}
