package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// refuse begins nothing while the spec cannot be carried out. A machine that was given
// up is replaced nevertheless, where machines can be made.
func refuse(s *state) opinion {
	r := s.Want.Refused
	switch {
	case !s.Want.isRefused():
		return pass("the spec can be carried out")
	case s.mayReplace():
		return pass("nothing else is begun, but a machine that was given up is replaced: %s", r.Message)
	}
	return wait(r.Reason, "%s", r.Message)
}

// mayReplace: although the spec is refused, a machine that was given up can be replaced.
func (s *state) mayReplace() bool {
	return s.Want.Refused.Replaceable && s.Group.Repairing && s.Group.Initialized && s.staying() < s.Want.Replicas
}

// grow creates machines that are missing.
func grow(s *state) opinion {
	if v := s.discardHeld(); v.decided {
		return v
	}
	have := s.staying()
	switch {
	case s.Group.Initialized && have >= s.Want.Replicas && s.nextHeld() == nil:
		return pass("%d of %d machines are there", have, s.Want.Replicas)
	case s.uneven():
		return s.waitForOdd()
	}
	if v := s.prepared(); v.decided {
		return v
	}
	if !s.Group.Initialized {
		return s.begin()
	}
	if v := s.mayJoin(); v.decided {
		return v
	}
	if m := s.nextHeld(); m != nil {
		return do(Step{Verb: StartBootstrap, Machine: m.Name}, "ScalingUp", "%s was made ahead, and may join", m.Name)
	}
	step := s.create()
	return do(step, "ScalingUp", "%d of %d machines are there", have, s.Want.Replicas)
}

// uneven reports whether that many members would stand no more failures than one fewer.
func (s *state) uneven() bool { return s.Etcd.Ours() && s.Want.Replicas%2 == 0 }

func (s *state) waitForOdd() opinion {
	return wait("EvenReplicas", "%d replicas are wanted; etcd on the machines wants an odd number, like %d or %d", s.Want.Replicas,
		s.Want.Replicas-1, s.Want.Replicas+1)
}

// prepared waits for what a new machine needs around it.
func (s *state) prepared() opinion {
	c, lacked := s.Cluster, s.lackedByAll()
	switch {
	case s.Want.isRefused() && !s.Want.Refused.Replaceable:
		return wait(s.Want.Refused.Reason, "%s", s.Want.Refused.Message)
	case !c.Infrastructure:
		return wait("InfrastructureNotReady", "the cluster's infrastructure is not provisioned")
	case c.Endpoint == "" && !s.Policy.EtcdOnly:
		return wait("NoEndpoint", "the endpoint of the API server is not known")
	case c.Template != "":
		return wait("TemplateInvalid", "%s", c.Template)
	case lacked.Blocked:
		return wait(lacked.Reason, "%s", lacked.Message)
	case lacked.Name != "":
		return wait(lacked.Reason, "%s, and no machine can join without it", lacked.Message)
	}
	return pass("all that a machine needs is there")
}

// begin creates the machine that initialises the cluster, and waits for it.
func (s *state) begin() opinion {
	first := slices.DeleteFunc(slices.Clone(s.machines), func(m *machine) bool { return m.isHeld() })
	with := func(one Standing) []*machine {
		return slices.DeleteFunc(slices.Clone(first), func(m *machine) bool { return m.standing != one })
	}
	if going := with(leaving); len(going) > 0 {
		return wait("MachineDeleting", "%s must be gone before another initialises the cluster", names(going))
	}
	if broken := with(failed); len(broken) > 0 {
		return wait("InitFailed", "%s", troubles(broken))
	}
	if len(first) == 0 {
		step := s.create()
		step.Init = true
		return do(step, "Initializing", "%s initialises the cluster", step.Machine)
	}
	if v := s.createAhead(); v.decided {
		return v
	}
	if s.Cluster.Initializing != "" {
		return wait("Initializing", "%s; %s", troubles(s.machines), s.Cluster.Initializing)
	}
	return wait("Initializing", "%s", troubles(s.machines))
}

// mayJoin waits until another machine may join.
func (s *state) mayJoin() opinion {
	if v := s.waitForDeletions(); v.decided {
		return v
	}
	if v := s.placed(); v.decided {
		return v
	}
	if v := s.waitForMatch(); v.decided {
		return v
	}
	if v := s.waitForHealthy(); v.decided {
		return v
	}
	if v := (copying{s}).wait(); v.decided {
		return v
	}
	if v := s.waitForDowngrade(); v.decided {
		return v
	}
	if v := s.prepareJoin(); v.decided {
		return v
	}
	on, most := s.coming()
	switch {
	case len(s.with(complete)) == 0 && len(s.with(leaving)) == 0 && !slices.ContainsFunc(on, (*machine).bootstrapping):
		return wait("NothingToJoin", "no machine is complete yet: %s", troubles(s.those(func(*machine) bool { return true })))
	case most > 0 && len(on) >= most:
		return wait("Joining", "%d of at most %s: %s", len(on), count(most, "joining machine"), troubles(on))
	}
	return pass("all that is there is healthy")
}

// coming returns the machines that join, and how many may at once; 0: any number.
// Voters come one by one, and so does everybody while some are to be replaced.
func (s *state) coming() (on []*machine, most int) {
	voters := s.Etcd.Ours() && !s.Policy.Learners
	placed := len(s.orphans()) // so many of those that joined long ago may have their voter
	on = s.those(func(m *machine) bool {
		if m.standing == joining && !s.isReplaced(m) {
			return !m.isHeld()
		}
		waits := voters && !m.votes() && m.canJoin()
		if waits && m.standing != joining && placed > 0 {
			placed--
			return false
		}
		return waits
	})
	if voters || len(s.behind()) > 0 || len(s.marked()) > 0 || s.Want.isRefused() {
		return on, 1
	}
	return on, s.Policy.MaxParallel
}

// votes: its member is known, and no learner.
func (m *machine) votes() bool { return m.member != nil && !m.member.Learner }

// bootstrapping: it joins and has no Node yet. The rule that started it found a complete
// machine; that one's probes may fail while it makes room, and more may come meanwhile.
func (m *machine) bootstrapping() bool { return m.standing == joining && !m.isUp() }

// waitForDeletions waits for machines to go before they are replaced, but for those that cannot go
// before, or not for long. One holds the last voter or the only healthy API server, another
// is still drained, which may take an hour. One without a Node has nothing to drain: a placeholder is to keep it out soon. With those there
// are never more than wanted. A third, but one alone, is held because it may yet join, or lingers.
func (s *state) waitForDeletions() opinion {
	going := s.with(leaving)
	if len(s.placeholders) > 0 {
		return wait("MachineDeleting", "%s; no machine can join before placeholder %s is removed", s.departures(going), s.placeholders[0].ID)
	}
	if s.holdsNobodyUp(going) {
		return pass("%s, and nothing waits for it", s.departures(going))
	}
	for _, m := range going {
		last := m.HookDue && (m.member != nil && !m.member.Learner && len(s.voters) == 1 || s.servesAlone(m) != "")
		drained := m.Hook && !m.HookDue && len(s.machines) < s.Want.Replicas && !s.takesSlot(m)
		if !last && !drained && !s.holdsOperated(m) {
			return wait("MachineDeleting", "%s; another is created when it is gone", s.departures(going))
		}
	}
	return pass("no machine is about to go")
}

// takesSlot reports whether a machine that goes hangs in its bootstrap and needs a placeholder when its hook is due. A machine that is
// created before that would be let in first, or kept out as well.
func (s *state) takesSlot(m *machine) bool {
	return m.member == nil && !m.isUp() && s.joinsAsLearner(m) && s.endangers(m)
}

// holdsOperated: an operator keeps etcd, and none of the machines stays: its hook holds the last one, which has the only member, until
// another has one.
func (s *state) holdsOperated(m *machine) bool {
	return s.Etcd.Operated() && m.Hook && s.staying() == 0
}

// waitForMatch waits while a member belongs to no machine and no machine that joins can own it.
func (s *state) waitForMatch() opinion {
	var orphans []string
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; !s.has(m.Machine) {
			orphans = append(orphans, m.label())
		}
	}
	if owners := len(s.mayOwn()); len(orphans) > owners {
		return wait("MembersUnmatched", "no machine is known for etcd member %s, and %d could have one", strings.Join(orphans, ", "), owners)
	}
	return pass("every member has its machine")
}

// waitForHealthy waits while anything that should be healthy is not.
func (s *state) waitForHealthy() opinion {
	if text := s.ailing(); text != "" {
		return wait("MemberUnhealthy", "etcd member %s; etcd takes no new member meanwhile", text)
	}
	if v := s.alarm(); v.decided {
		return v
	}
	// Who is replaced, or marked, is about to go, broken or not.
	broken := slices.DeleteFunc(s.with(failed, late, unhealthy, unknown), func(m *machine) bool {
		return s.isReplaced(m) || m.isMarked() && s.keepsMachine() == "" || m.isUp() && s.replacesBroken()
	})
	if len(broken) > 0 {
		return wait("MachineBroken", "%s%s", troubles(broken), s.onlyByPerson())
	}
	return pass("all that is there is healthy")
}

// copying is the state of a group in which a new member would copy the data of the leader.
type copying struct{ *state }

// wait waits while these could differ from those of most members, and until a person has had a member replaced whose data differ.
func (s copying) wait() opinion {
	if s.Etcd.Doubted != "" {
		return wait("EtcdDataDiffers", "%s; a new member would copy the data of the leader", s.Etcd.Doubted)
	}
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		if !m.Differs {
			continue
		}
		why := "the data of etcd member " + m.label() + " differ from those of most members"
		if v := s.handOver(m, "EtcdDataDiffers", why); v.decided {
			return v
		}
		on := s.on(m.Machine)
		switch {
		case m.Leader:
			return wait("EtcdDataDiffers", "%s, it leads, and a new member would copy them", why)
		case on == nil:
			return wait("EtcdDataDiffers", "%s, and no machine is known for it", why)
		case on.standing != leaving && !on.isMarked() && !s.isReplaced(on):
			return wait("EtcdDataDiffers", "%s; a person must replace its machine: quorate replace %s", why, on.Name)
		}
	}
	return pass("no member is known to have other data than most")
}

// replacesBroken reports whether the next machine takes the place of one that was given up. It does not wait for another that came up and
// is broken: fewer serve without it, and the other may never be marked. One that never came up shows what may become of the next: it
// waits for that one.
func (s *state) replacesBroken() bool { return s.Group.Repairing && s.staying() < s.Want.Replicas }

// alarm waits while a member raises an alarm: with NOSPACE etcd takes no writes that add data, among them those of machines
// that join, of drains and of chores; with CORRUPT it takes none.
func (s *state) alarm() opinion {
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; len(m.Alarms) > 0 {
			text := fmt.Sprintf("etcd member %s raises %s", m.label(), strings.Join(sorted(m.Alarms), ", "))
			if v := relieveSpace(s); m.Size > 0 {
				text += "; " + v.because
			}
			return wait("EtcdAlarm", "%s", text)
		}
	}
	return pass("no member of etcd raises an alarm")
}

// keptByAlarm says why a machine stays while a member raises an alarm; empty: it may go. Until a person has ended the alarm, the API server
// refuses the writes of a drain, and a voter that answers may be needed. A machine that is marked or whose data is corrupt is replaced all
// the same.
func (s *state) keptByAlarm(m *machine) string {
	v := s.alarm()
	isCorrupt := m.member != nil && slices.Contains(m.member.Alarms, corrupt)
	if !v.decided || m.isMarked() || isCorrupt || !s.mayAnswer(m) {
		return ""
	}
	return "stays until a person has ended the alarm: " + v.decision.Message
}

// emptiest is the failure domain with the fewest machines that are not about to be
// replaced, and of those the one with the fewest that stay.
func (s *state) emptiest() string {
	if len(s.Want.Domains) == 0 {
		return ""
	}
	lasting := func(domain string) int {
		return len(s.those(func(m *machine) bool { return m.Domain == domain && !s.isReplaced(m) }))
	}
	return slices.MinFunc(s.Want.Domains, func(a, b string) int {
		return cmp.Or(cmp.Compare(lasting(a), lasting(b)), cmp.Compare(s.inDomain(a), s.inDomain(b)), cmp.Compare(s.turn(a), s.turn(b)))
	})
}

// turn decides between failure domains that are otherwise equal: in another order for every
// cluster, or the machines of a whole fleet would begin in the same one.
func (s *state) turn(domain string) uint32 {
	if s.Want.DomainSeed == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Want.DomainSeed + "/" + domain))
	return h.Sum32()
}

func (s *state) inDomain(domain string) int {
	return len(s.those(func(m *machine) bool { return m.Domain == domain }))
}

// SettleRule names the rule that only waits for the end of what is under way.
const SettleRule = "settle"

// settle waits for whatever is under way.
func settle(s *state) opinion {
	if going := s.leavingBeforeRollout(); len(going) > 0 {
		return wait("MachineDeleting", "%s", s.departures(going))
	}
	if on := s.those(func(m *machine) bool { return m.standing == joining && !m.isHeld() }); len(on) > 0 {
		return wait("Joining", "%s", troubles(on))
	}
	for _, m := range s.machines {
		if m.Updating != "" {
			return wait("MachineUpdating", "%s is being changed in place: %s", m.Name, m.Updating)
		}
	}
	for _, m := range s.strays() {
		if at := s.stuckAt(m); s.Now.Before(at) {
			return wait("MemberJoining", "etcd member %s %s", m.label(), m.progress())
		}
	}
	return pass("nothing is under way")
}

// leavingBeforeRollout are the machines that are being deleted and that all else waits for. A rollout does not wait for a single one
// that may yet join, which never came up and may take half an hour, nor for one that lingers.
func (s *state) leavingBeforeRollout() []*machine {
	going := s.with(leaving)
	if len(s.outdated()) > 0 && s.holdsNobodyUp(going) {
		return nil
	}
	return going
}

// holdsNobodyUp: of machines that are being deleted there is one alone, which may yet join, or lingers.
func (s *state) holdsNobodyUp(going []*machine) bool {
	return len(going) == 1 && (s.mayComeLate(going[0]) || s.lingers(going[0]))
}

// lingers: of a machine that is being deleted nothing but the infrastructure is left, which the user need not wait for. Nothing on it is or
// becomes a member of etcd, and as many as wanted stay.
func (s *state) lingers(m *machine) bool {
	return s.Policy.Overlap && s.Policy.Surge > 0 && s.staying() >= s.Want.Replicas && m.isReleased() && m.member == nil && !s.hasTimeToAdd(m)
}

// mayComeLate: a machine is held by nothing but its hook, because it may yet join.
func (s *state) mayComeLate(m *machine) bool {
	return m.HookDue && s.cannotGo(m) == "" && s.cannotRelease(m) != ""
}

// departures says what each machine that is being deleted waits for.
func (s *state) departures(going []*machine) string {
	var texts []string
	for _, m := range going {
		next := cmp.Or(s.cannotGo(m), s.servesAlone(m), s.cannotRelease(m), "may go")
		switch {
		case !m.Hook:
			next = "waits for its infrastructure to go"
		case !m.HookDue:
			next = "waits to be drained"
		}
		texts = append(texts, m.Name+" is being deleted and "+next)
	}
	return strings.Join(texts, "; ")
}
