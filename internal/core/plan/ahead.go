package plan

import "fmt"

// Machines may be made ahead: beside the first, which initialises the cluster. Their bootstrap is held back, so that they neither
// initialise nor join anything, until a step starts it where another machine would be created.

// nextHeld is the machine that joins next, of those that were made ahead; nil: there is none.
func (s *state) nextHeld() *machine {
	held := s.those(func(m *machine) bool { return m.isHeld() && !m.isOutdated() && !m.isMarked() })
	if len(held) == 0 {
		return nil
	}
	return held[0]
}

// discardHeld takes a machine away that was made ahead and that is not wanted any more. Nothing needs it.
func (s *state) discardHeld() opinion {
	held := s.those(func(m *machine) bool { return m.isHeld() })
	have, which := s.staying(), ""
	if !s.Group.Initialized && have == len(held) {
		have, which = have+1, " with the one that initialises the cluster"
	}
	if len(held) == 0 || have <= s.Want.Replicas {
		return pass("no more machines were made ahead than are wanted")
	}
	m := s.leastNeeded(held)
	return s.takeAway(m, "ScalingDown", fmt.Sprintf("%s%s, %d wanted; %s", count(have, "machine"), which, s.Want.Replicas, m.because(s)))
}

// createAhead creates a machine beside the first, and holds it back.
func (s *state) createAhead() opinion {
	have := s.staying()
	switch {
	case !s.Policy.Eager:
		return pass("machines are made when they may join")
	case have >= s.Want.Replicas:
		return pass("%d of %d machines are there", have, s.Want.Replicas)
	}
	step := s.create()
	step.Hold = true
	return do(step, "ScalingUp", "%d of %d machines are there, and this one is ready when the cluster is initialised", have, s.Want.Replicas)
}
