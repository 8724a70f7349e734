package main

import "github.com/quorate/quorate/internal/core/plan"

// An update in place: a host's member and its API server are away for a while, and it is of the other spec afterwards, or as it was.

// update is how far the update of a host in place is. There are two specs, and an update is for the one that the host is not of.
type update uint8

const (
	noUpdate update = iota
	begun           // nothing of the host is touched yet
	away            // its member and its API server do not run
	back            // they run again, and are not verified
	updated         // it is of the other spec, and its objects do not say so
	failing         // it ended, and the host is as it was
)

// isUpdating: an update is under way, and something holds the host.
func (h *host) isUpdating() bool {
	return h.update > noUpdate && h.update < updated && !h.has(released)
}

// addUpdate is what is seen of a host's update.
func addUpdate(m *plan.Machine, h *host) {
	switch h.update {
	case noUpdate:
		return
	case updated:
		m.Update.State = plan.UpdateDone
	case failing:
		m.Update.State = plan.UpdateFailed
	default:
		m.Update.State = plan.UpdateUnderway
	}
	m.Update.Message, m.Update.Obsolete = "step swap", !h.has(outdated)
}

// doUpdate carries out a step about a host's update.
func doUpdate(v verb, h *host) {
	switch {
	case v == updateInPlace && h.update == noUpdate:
		h.update = begun
	case v == recordUpdate && h.update == updated:
		h.update, h.is = noUpdate, h.is^outdated
	case v == dropUpdate && h.update == failing:
		h.update = noUpdate
	}
}

// goOn moves an update on by itself. It is verified only while etcd answers.
func (g *group) goOn(all *moves, s state, i int) {
	h := &s.hosts[i]
	if h.has(dark) || h.update == noUpdate || h.update >= updated {
		return
	}
	if h.update == back && !g.external && (s.leader == 0 || !g.votes(h)) {
		return
	}
	h.update++
	all.add(g, true, s, "its update goes on", i+1)
}

// giveUpUpdates ends the updates that do not go on.
func giveUpUpdates(s state) state {
	s.each(func(_ int, h *host) {
		if h.update > noUpdate && h.update < updated {
			h.update = failing
		}
	})
	return s
}

// failUpdate is how an update may fail: the host is as it was.
func (g *group) failUpdate(all *moves, s state, i int) {
	if h := &s.hosts[i]; h.update == away || h.update == back {
		h.update = failing
		all.add(g, false, s, "its update fails", i+1)
	}
}

// isReplaced: by the policy another takes the place of a host that is outdated.
func (g *group) isReplaced(h *host) bool {
	never := g.inPlace == plan.InPlaceNever || g.inPlace == plan.InPlacePreferred && h.stage < settling
	return never && h.has(outdated)
}

// judgeUpdate: one at a time, while all are well and none of the others is missed.
func (g *group) judgeUpdate(s *state, t step) string {
	h := &s.hosts[t.on-1]
	others := s.count(func(o *host) bool { return o.update != noUpdate })
	unwell := s.count(func(o *host) bool { return !g.seems(o) || o.has(deleting|marked) })
	switch {
	case g.inPlace == plan.InPlaceNever || !h.has(outdated):
		return "a machine is updated that nobody wants to be"
	case others > 0:
		return "two machines are updated at once"
	case s.spec&kubeadmOld != 0:
		return "a machine is updated before kubeadm's configuration"
	case s.n() > 1 && unwell > 0:
		return "a machine is updated beside one that is not well"
	case s.n() > 1 && !g.external && s.leader == t.on:
		return "the leader's machine is updated"
	}
	without := *s
	without.hosts[t.on-1].update = away
	if s.n() > 1 && !g.quorum(&without) {
		return "a machine is updated whose voter is needed"
	}
	return ""
}

// judgeBeside: nothing is begun beside an update, and no host goes that lives.
func (g *group) judgeBeside(s *state, t step) string {
	if s.count((*host).isUpdating) == 0 {
		return ""
	}
	var h *host
	if t.on > 0 {
		h = &s.hosts[t.on-1]
	}
	switch t.verb {
	case create, startBootstrap, promoteMember:
		return "a machine joins while another is updated"
	case moveLeader:
		if h != nil && h.isUpdating() {
			return "the lead goes to a machine that is updated"
		}
	case remove, removeMember:
		if h != nil && !h.isUpdating() && g.votes(h) && !h.has(released) {
			return "a voter that lives goes while another machine is updated"
		}
	}
	return ""
}

// judgeEnd: what was done is recorded, and what failed is forgotten when it is not wanted.
func (g *group) judgeEnd(s *state, t step) string {
	h := &s.hosts[t.on-1]
	if t.verb == recordUpdate {
		if h.update != updated {
			return "an update is recorded that was not done"
		}
		return ""
	}
	if h.update != failing || h.has(outdated) && !g.isReplaced(h) {
		return "an update is forgotten that a person must see"
	}
	return ""
}
