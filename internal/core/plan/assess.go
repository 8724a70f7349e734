package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/quorum"
)

// Assessment is what the rules make of the machines and members that were observed: the one
// definition of "complete" and "healthy", besides the second one in Check. Code that
// reports, or decides how soon to look again, reads it here.
type Assessment struct {
	// Machines are in the order in which they were observed, and so are Members.
	Machines []MachineAssessment `json:"machines,omitempty"`
	Members  []MemberAssessment  `json:"members,omitempty"`
	// Voters are the members that vote, as the quorum counts them.
	Voters []quorum.Voter `json:"voters,omitempty"`
	// Settled: every machine is complete and holds a healthy member, where members are Quorate's to
	// keep. No other member is there, and etcd's version is not to be lowered: nothing is under way, and nothing is wrong.
	Settled bool `json:"settled,omitempty"`
	// Remediation is what the rules decide about the machines that are marked to be replaced; empty: none is.
	Remediation string `json:"remediation,omitempty"`
}

// MachineAssessment is what the rules make of one machine.
type MachineAssessment struct {
	Name     string   `json:"name"`
	Standing Standing `json:"standing"`
	// Health is that of the machine's components and member together, whether it stays or leaves.
	Health Health `json:"health,omitempty"`
	// Why is what it lacks; empty: nothing.
	Why string `json:"why,omitempty"`
	// Irreplaceable: without it the other voters would be no quorum, or no machine that stays would be healthy.
	Irreplaceable bool `json:"irreplaceable,omitempty"`
	// Stays: it is marked to be replaced, and waiting does not help. It is the only machine of an initialized group, it broke as often
	// as the limits allow, or the others could not do without it.
	Stays bool `json:"stays,omitempty"`
}

// Complete reports whether the machine stays, and all that it should run is proven healthy.
func (m MachineAssessment) Complete() bool { return m.Standing == complete }

// MemberAssessment is what the rules make of one member of etcd.
type MemberAssessment struct {
	ID string `json:"id"`
	// Health is Healthy when the member votes, answers, belongs to a machine and raises no alarm.
	Health Health `json:"health,omitempty"`
	// Fault is why it is not Healthy, and Why the same for people, in etcd's own words where it has any.
	Fault Fault  `json:"fault,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Fault is why a member does not do what a member should.
type Fault string

// The values of Fault; the zero value: there is none.
const (
	FaultAlarm     Fault = "Alarm"     // it raises NOSPACE or CORRUPT
	FaultJoining   Fault = "Joining"   // it has not started, or is a learner
	FaultSilent    Fault = "Silent"    // it was asked and does not answer, or follows no leader
	FaultUnmatched Fault = "Unmatched" // no machine is known for it
	FaultUnasked   Fault = "Unasked"   // it could not be asked
)

// Assess returns what the rules make of what was observed.
func Assess(o Observed) Assessment { return newState(o).assess(o) }

// assess returns what the rules make of what was observed, in its order.
func (s *state) assess(o Observed) Assessment {
	a := Assessment{Voters: s.voters}
	for _, given := range o.Machines {
		m := s.on(given.Name)
		if m == nil { // the rules wait no longer for it
			m = s.judge(given)
		}
		a.Machines = append(a.Machines, MachineAssessment{
			Name: m.Name, Standing: m.standing, Health: m.health, Why: m.why,
			Irreplaceable: s.irreplaceable(m), Stays: m.isMarked() && s.keepsMarked(m),
		})
	}
	for _, given := range o.Etcd.Members {
		a.Members = append(a.Members, assessMember(given))
	}
	if len(s.marked()) > 0 {
		said := remediate(s)
		a.Remediation = said.because + said.decision.Message
	}
	calm := !slices.ContainsFunc(o.Machines, func(m Machine) bool { return m.Update != Update{} })
	a.Settled = calm && a.Complete() == len(a.Machines) && (!o.Etcd.Ours() || a.holds(o.Etcd) && len(s.tooNew()) == 0 &&
		o.Etcd.Downgrade == "")
	return a
}

// holds reports whether the members agree, are as many as the machines, and lack nothing.
func (a Assessment) holds(etcd Etcd) bool {
	return etcd.Known && etcd.Agreed && len(a.Members) == len(a.Machines) &&
		!slices.ContainsFunc(a.Members, func(m MemberAssessment) bool { return m.Health != Healthy })
}

// Complete counts the machines that are complete.
func (a Assessment) Complete() int {
	n := 0
	for _, m := range a.Machines {
		if m.Complete() {
			n++
		}
	}
	return n
}

// Machine returns what the rules make of the machine of that name; the zero value: there is none.
func (a Assessment) Machine(name string) MachineAssessment {
	for _, m := range a.Machines {
		if m.Name == name {
			return m
		}
	}
	return MachineAssessment{}
}

// Member returns what the rules make of the member with that ID; the zero value: there is none.
func (a Assessment) Member(id string) MemberAssessment {
	for _, m := range a.Members {
		if m.ID == id {
			return m
		}
	}
	return MemberAssessment{}
}

// assessMember reports whether a member does what a member should, and what it does not.
func assessMember(m Member) MemberAssessment {
	a := MemberAssessment{ID: m.ID, Health: Unhealthy}
	switch {
	case len(m.Alarms) > 0:
		a.Fault, a.Why = FaultAlarm, "raises the alarm "+strings.Join(m.Alarms, " and ")
	case m.Placeholder:
		a.Fault, a.Why = FaultJoining, "is a placeholder: no machine can join while one that hangs in its bootstrap is being deleted"
	case m.Name == "", m.Learner && m.Health != Unhealthy:
		a.Fault, a.Why = FaultJoining, "is joining, and does not vote yet"
	case m.Health == Unhealthy:
		a.Fault, a.Why = FaultSilent, cmp.Or(m.Why, "does not answer, or follows no leader")
	case m.Machine == "":
		a.Fault, a.Why = FaultUnmatched, "belongs to no machine"
	case m.Health == Unknown:
		a.Health, a.Fault, a.Why = Unknown, FaultUnasked, cmp.Or(m.Why, "could not be asked")
	default:
		a.Health = Healthy
	}
	return a
}

// irreplaceable reports whether the others could not do without a machine.
func (s *state) irreplaceable(m *machine) bool {
	voters := s.voters
	if m.member != nil {
		voters = quorum.Without(voters, m.member.ID)
	}
	if o := s.updating(); o != nil && o != m && o.member != nil {
		voters = markDown(voters, o.member.ID)
	}
	if s.Etcd.Known && !quorum.Has(voters) { // known is only what is on these machines
		return true
	}
	return len(s.those(func(o *machine) bool { return o != m && !o.isUpdating() && o.componentsHealthy() })) == 0
}

// componentsHealthy: all its components are proven healthy, whatever its member is.
func (m *machine) componentsHealthy() bool {
	for _, c := range m.Components {
		if c.Health != Healthy {
			return false
		}
	}
	return len(m.Components) > 0
}
