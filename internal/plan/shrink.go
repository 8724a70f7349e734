package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// scaleDown deletes one machine of more than wanted.
func scaleDown(s *state) opinion {
	have := s.staying()
	switch {
	case have <= s.Want.Replicas:
		return pass("%s, %d wanted", count(have, "machine"), s.Want.Replicas)
	case s.uneven():
		return s.waitForOdd()
	}
	if unsure := s.with(unknown); len(unsure) > 0 {
		return wait("MachineUnknown", "%s", troubles(unsure))
	}
	m := s.leastNeeded()
	if why := s.cannotDelete(m); why != "" {
		return wait("CannotSpare", "%s, %d wanted, but %s %s", count(have, "machine"), s.Want.Replicas, m.Name, why)
	}
	why := fmt.Sprintf("%s, %d wanted", count(have, "machine"), s.Want.Replicas)
	if m.member != nil {
		if v := s.handOver(m.member, "ScalingDown", why+"; "+m.Name+" goes"); v.decided {
			return v
		}
	}
	return do(Step{Verb: Delete, Machine: m.Name}, "ScalingDown", "%s; %s", why, m.because(s))
}

// leastNeeded is the machine to delete: a broken one before a complete one, then
// in the failure domain with the most machines, then the oldest.
func (s *state) leastNeeded() *machine {
	return slices.MinFunc(s.with(failed, complete, joining, late, unhealthy, unknown), func(a, b *machine) int {
		return cmp.Or(
			cmp.Compare(a.soundness(), b.soundness()),
			-cmp.Compare(s.inDomain(a.Domain), s.inDomain(b.Domain)),
		)
	})
}

func (m *machine) soundness() int {
	if m.standing == complete {
		return 1
	}
	return 0
}

// cannotDelete says why the group cannot live without a machine; empty if it can.
func (s *state) cannotDelete(m *machine) string {
	others := 0
	for _, o := range s.with(complete) {
		if o.Name != m.Name {
			others++
		}
	}
	if others == 0 {
		return "cannot go: no other machine is complete"
	}
	return s.cannotGo(m)
}

// because says why this machine was chosen.
func (m *machine) because(s *state) string {
	if m.standing != complete {
		return m.Name + ": " + m.why
	}
	if m.Domain == "" {
		return m.Name + " is the oldest"
	}
	return m.Name + " is the oldest in " + m.Domain + ", which has " + count(s.inDomain(m.Domain), "machine")
}

// waitForRepair names what is broken and nobody mends here.
func waitForRepair(s *state) opinion {
	if broken := s.with(failed, late, unhealthy, unknown); len(broken) > 0 {
		return wait("MachineBroken", "%s", troubles(broken))
	}
	return s.matched()
}
