package main

import "fmt"

// A move is one thing that happens, and what becomes of the group.
type move struct {
	what  string
	on    int // the host that it happens to, counted from 1; 0: to none
	to    state
	fair  bool   // it happens by itself, sooner or later, if nothing else goes wrong
	wrong string // an invariant that it breaks
}

// String names the move.
func (m *move) String() string {
	if m.on == 0 {
		return m.what
	}
	return fmt.Sprintf("%s (%d)", m.what, m.on)
}

// moves is a list that is added to.
type moves []move

func (m *moves) add(g *group, fair bool, to state, what string, on int) {
	g.settle(&to)
	*m = append(*m, move{what: what, on: on, to: to, fair: fair})
}

// nature is all that may happen by itself, or by accident. What happens fairly comes first.
func (g *group) nature(s state) moves {
	var all moves
	s.each(func(i int, h *host) {
		g.progress(&all, s, i)
		g.leave(&all, s, i)
		g.goOn(&all, s, i)
		if h.has(down) && !h.has(dark) {
			to := s
			to.hosts[i].clear(down | old)
			all.add(g, true, to, "etcd returns", i+1)
		}
	})
	g.elect(&all, s)
	inSleep{g}.nature(&all, s)
	quiet := len(all) == 0
	g.wait(&all, s, quiet)
	s.each(func(i int, h *host) {
		g.comeBack(&all, s, i)
	})
	g.accidents(&all, s)
	g.user(&all, s)
	inPast{g}.moves(&all, s)
	return all
}

// comeBack lets a host that was dark go on, whatever was decided of it meanwhile; and one that
// boots take its time.
func (g *group) comeBack(all *moves, s state, i int) {
	switch h := s.hosts[i]; {
	case h.isVanished():
	case h.has(dark):
		s.hosts[i].clear(dark | marked | old)
		switch {
		case h.stage == up:
			s.hosts[i].clear(late)
		case h.stage == coming && h.has(over):
			s.hosts[i].set(stuck) // kubeadm has given up
		}
		all.add(g, false, s, "returns", i+1)
	case h.stage == coming && !h.has(late|stuck) && g.slow:
		for k := range i + 1 { // who is older has been there longer
			if s.hosts[k].stage == coming {
				s.hosts[k].set(late)
			}
		}
		all.add(g, false, s, "boots slowly", i+1)
	}
}

// progress moves a host on as it comes up.
func (g *group) progress(all *moves, s state, i int) {
	h := &s.hosts[i]
	if h.has(dark|stuck|removed|held) || h.stage == up {
		return
	}
	next, wrong := h.stage+1, ""
	switch {
	case h.stage == coming && s.rec.seeded&(1<<i) != 0:
		if next, wrong = (inRecovery{g}).restores(&s, i); next == coming {
			return
		}
	case h.stage == coming:
		if next = g.begin(&s, i); next == coming {
			return
		}
		if next == none {
			s.hosts[i].set(stuck)
			all.add(g, true, s, "cannot join a cluster of another spec", i+1)
			return
		}
	case h.stage == syncing, h.stage == voting:
		if s.leader == 0 || h.has(down) || h.stage == syncing && g.etcdOnly {
			return
		}
	}
	g.arrive(&s, i, next)
	all.add(g, true, s, "goes on", i+1)
	(*all)[len(*all)-1].wrong = wrong
}

// arrive brings a host to a stage.
func (g *group) arrive(s *state, i int, next stage) {
	h := s.hosts[i]
	s.hosts[i].stage = next
	switch {
	case next == settling, next == up && g.etcdOnly:
		s.hosts[i].clear(late | old)
		g.initialise(s, h.has(deleting), h.has(outdated))
	case h.stage == settling:
		s.hosts[i].clear(late | old)
	case h.stage == coming:
		s.hosts[i].clear(old)
	}
}

// ofKubeadm: kubeadm makes the machines, which read its configuration in the cluster as they join.
func (g *group) ofKubeadm() bool { return !g.nodeOnly && !g.etcdOnly }

// begin is what kubeadm does first on a host: the stage that it comes to; coming if
// etcd lets it wait, none if it cannot go on.
func (g *group) begin(s *state, i int) stage {
	h := &s.hosts[i]
	switch {
	case g.ofKubeadm() && !h.has(first) && h.has(outdated) && s.spec&kubeadmOld == 0 && s.marks&initialised != 0:
		return none
	case h.has(first) && !g.external:
		s.leader, s.strays = int8(i)+1, [2]stray{}
		s.marks &^= placeholder
		if g.etcdOnly {
			return up // without a Node, a machine is up as soon as its member votes
		}
		return voting
	case g.external:
		return settling
	case g.mayAdd(s):
		return added
	}
	return coming
}

// initialise is what the first Node of a group that stays does.
func (g *group) initialise(s *state, leaving, behind bool) {
	if leaving || s.marks&initialised != 0 {
		return
	}
	s.marks |= initialised
	s.spec = 0
	if behind && g.ofKubeadm() {
		s.spec = kubeadmOld | addonsOld
	}
}

// mayAdd is etcd's gate for a new member.
func (g *group) mayAdd(s *state) bool {
	running, all := g.voters(s)
	for _, m := range s.strays {
		if m&left != 0 {
			return false
		}
	}
	return s.leader != 0 && running == all && s.count(g.learner) == 0 && s.marks&placeholder == 0
}

// leave moves a host on that is being deleted.
func (g *group) leave(all *moves, s state, i int) {
	h := &s.hosts[i]
	switch {
	case !h.has(deleting):
	case h.has(released):
		wrong := g.judgeLoss(&s, h)
		g.drop(&s, i)
		all.add(g, true, s, "is gone", i+1)
		(*all)[len(*all)-1].wrong = wrong
	case !h.has(due):
		h.set(due)
		all.add(g, true, s, "is drained", i+1)
	}
}

// elect: any voter that runs may lead.
func (g *group) elect(all *moves, s state) {
	if g.external || s.leader != 0 || !g.quorum(&s) {
		return
	}
	s.each(func(i int, h *host) {
		if g.voter(h) && g.runs(h) {
			to := s
			to.leader = int8(i) + 1
			all.add(g, true, to, "is elected", i+1)
		}
	})
}

// wait lets time pass: seconds, in which others may be slow, and minutes, after which
// whatever could go on has gone on; then a health check looks.
func (g *group) wait(all *moves, s state, quiet bool) {
	seconds := g.afterSeconds(s)
	if seconds != s {
		all.add(g, true, seconds, "seconds pass", 0)
	}
	if !quiet || seconds != s {
		return
	}
	if ended := giveUpUpdates(s); ended != s {
		all.add(g, true, ended, "updates are given up", 0)
		return
	}
	g.check(all, s)
	g.waitLong(all, s)
}

// afterSeconds is the state in which whatever is wrong has been so for a while.
func (g *group) afterSeconds(s state) state {
	s.each(func(_ int, h *host) {
		if h.has(dark|down) || h.has(stuck) && g.learner(h) || h.has(released) && g.member(h) || h.has(hidden) && g.voter(h) && !g.asked(h) {
			h.set(old)
		}
	})
	for k, m := range s.strays {
		if m&left != 0 {
			s.strays[k] |= oldOne
		}
	}
	return s
}

// waitLong lets the time of kubeadm pass, and then all in which a machine may still boot.
func (g *group) waitLong(all *moves, s state) {
	minutes := s
	s.each(func(i int, h *host) {
		if h.stage < settling && !h.has(stuck|dark|held) && (!g.etcdOnly || !g.runs(h)) {
			minutes.hosts[i].set(stuck | old) // kubeadm gives up
		}
		if h.stage < up && !h.has(held) || h.has(dark) {
			minutes.hosts[i].set(late)
		}
		if h.has(hidden) && g.learner(h) && !g.asked(h) {
			minutes.hosts[i].set(old)
		}
	})
	if minutes != s {
		all.add(g, true, minutes, "minutes pass", 0)
		return
	}
	hour := s
	s.each(func(i int, h *host) {
		if h.stage == coming && !h.has(held) {
			hour.hosts[i].set(over)
		}
	})
	if hour != s {
		all.add(g, true, hour, "half an hour passes", 0)
	}
}

// check marks what a health check marks, if it is not too much.
func (g *group) check(all *moves, s state) {
	to, n := s, 0
	s.each(func(i int, h *host) {
		if h.has(late) && h.has(stuck|dark) && !h.has(deleting|hidden) && (h.has(dark) || h.stage < settling) {
			to.hosts[i].set(marked)
			n++
		}
	})
	if to != s && n <= (g.replicas-1)/2 {
		all.add(g, true, to, "a health check marks what does not come", 0)
	}
}

// user is what a user does: changes the spec once and back, deletes machines, takes their hooks
// away, and loses the status.
func (g *group) user(all *moves, s state) {
	inRecovery{g}.person(all, s)
	inSleep{g}.person(all, s)
	if s.marks&changed == 0 && !g.recovers && !g.steady || g.reverts && s.marks&reverted == 0 {
		all.add(g, false, g.change(s), "another spec is wanted", 0)
	}
	if int(s.acts) >= g.acts {
		return
	}
	s.acts++
	if s.marks&(initialised|forgotten) == initialised && !g.reachable(&s) && !g.recovers && !g.restores && !g.hibernates {
		to := s
		to.marks |= forgotten
		all.add(g, false, to, "status is lost", 0)
	}
	s.each(func(i int, _ *host) { g.userDeletes(all, s, i) })
}

// userDeletes is how a user deletes a host: in good order, or with its hook taken away.
func (g *group) userDeletes(all *moves, s state, i int) {
	h := s.hosts[i]
	if h.has(hidden) {
		return
	}
	if !h.has(deleting) {
		g.delete(&s.hosts[i])
		all.add(g, false, s, "a user deletes", i+1)
	}
	if !h.has(released) && g.strips {
		s.hosts[i].set(deleting | due | released | forced)
		s.hosts[i].clear(old)
		all.add(g, false, s, "a user deletes it and takes its hook away", i+1)
	}
}

// change changes the spec, or changes it back: what was behind is wanted again.
func (g *group) change(s state) state {
	if s.marks&changed != 0 {
		s.marks |= reverted
	}
	s.marks |= changed
	if s.marks&initialised != 0 && g.ofKubeadm() {
		s.spec ^= kubeadmOld | addonsOld
	}
	s.each(func(i int, _ *host) { s.hosts[i].is ^= outdated })
	if s.pending.verb != nothing {
		s.pending.old = !s.pending.old
	}
	return s
}

// accidents are what at most a few of happen.
func (g *group) accidents(all *moves, s state) {
	if int(s.faults) >= g.faults {
		return
	}
	s.faults++
	s.each(func(i int, h *host) {
		if h.has(dark) {
			return
		}
		to := s
		to.hosts[i].set(dark)
		to.hosts[i].clear(old)
		all.add(g, false, to, "goes dark", i+1)
		if g.runs(h) {
			to := s
			to.hosts[i].set(down)
			to.hosts[i].clear(old)
			all.add(g, false, to, "etcd stops", i+1)
		}
		g.failUpdate(all, s, i)
		if h.stage < up && !h.has(stuck) {
			to := s
			to.hosts[i].set(stuck)
			all.add(g, false, to, "hangs", i+1)
		}
	})
}
