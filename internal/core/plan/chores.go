package plan

import "time"

// Chore is something beside machines and members that the group keeps, and that is not as it should be: authorities, a
// kubeconfig, files and add-ons in the managed cluster. What it is, its kind knows; when it comes, the rules.
type Chore struct {
	// Name is what is kept, one CamelCase word.
	Name string `json:"name"`
	// Reason is why it is due, one CamelCase word, and Message the same for people; where it Expires, Message names what does.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Due is when it is done.
	Due Due `json:"due"`
	// Expires is the end of what is renewed in time; zero: it is missing, or not as it should be.
	Expires time.Time `json:"expires,omitzero"`
	// Inside: it is kept in the managed cluster, which must answer for it. Otherwise it is a secret with a private key.
	Inside bool `json:"inside,omitempty"`
	// FromSpec: the spec asks for it, so that it is left as it is while the spec is refused.
	FromSpec bool `json:"fromSpec,omitempty"`
	// Blocked: only a person can do it. Message says what.
	Blocked bool `json:"blocked,omitempty"`
	// Then names the chore that becomes due when this one is done; empty: none does.
	Then string `json:"then,omitempty"`
}

// Due is when a chore is done.
type Due string

// The values of Due.
const (
	// DueFirst: before the first machine is made, and never after that: a later machine waits for a person.
	DueFirst Due = "First"
	// DueNow: ahead of machines and members.
	DueNow Due = "Now"
	// DueJoin: before another machine joins, and when all else is done.
	DueJoin Due = "Join"
	// DueRest: when all else is done.
	DueRest Due = "Rest"
)

// Before something expires it is renewed, at leisure or ahead of all else.
const (
	renewSoon = 180 * 24 * time.Hour
	renewNow  = 30 * 24 * time.Hour
)

// bootstrapSecrets does what every machine and every client of the cluster needs first.
func bootstrapSecrets(s *state) opinion {
	if len(s.Uncontrolled) > 0 {
		return pass("nothing is made while there are machines of others")
	}
	if s.Want.isRefused() && s.isNew() {
		return pass("nothing is made for what is refused: %s", s.Want.Refused.Message)
	}
	for _, c := range s.chores {
		if s.isUrgent(c) {
			return s.write(c)
		}
	}
	return pass("nothing is missing that comes before machines")
}

// isUrgent reports whether a chore is done ahead of machines and members.
func (s *state) isUrgent(c Chore) bool {
	switch c.Due {
	case DueFirst:
		return !s.Group.Initialized && len(s.machines) == 0
	case DueNow:
		return s.isDue(c, renewNow)
	}
	return false
}

// isDue reports whether what a chore keeps is missing, not as it should be, or expires within a time.
func (s *state) isDue(c Chore, within time.Duration) bool {
	return !s.Now.Before(c.Expires.Add(-within))
}

// write is the opinion that a chore is done.
func (s *state) write(c Chore) opinion {
	return do(Step{Verb: Write, Chore: c.Name}, c.Reason, "%s", s.tell(c))
}

// tell says of a chore why it is due, or how long it is not.
func (s *state) tell(c Chore) string {
	if c.Expires.IsZero() {
		return c.Message
	}
	return c.Message + " is valid for " + span(c.Expires.Sub(s.Now))
}

// lackedByAll is the first chore without which no machine can be made or join any more; the zero value: there is none.
func (s *state) lackedByAll() Chore {
	for _, c := range s.chores {
		if c.Due == DueFirst {
			return c
		}
	}
	for _, c := range s.blocked {
		if c.Due == DueJoin {
			return c
		}
	}
	return Chore{}
}

// keepInside does what the managed cluster needs before a machine joins, whatever the spec is: it may be what keeps etcd out of reach.
func (s *state) keepInside() opinion {
	for _, c := range s.chores {
		if c.Due == DueJoin && !c.FromSpec {
			return s.write(c)
		}
	}
	return pass("nothing is missing in the cluster")
}

// prepareJoin does what a machine needs that joins.
func (s *state) prepareJoin() opinion {
	for _, c := range s.chores {
		if c.Due == DueJoin {
			return s.write(c)
		}
	}
	return pass("nothing is missing that a machine needs to join")
}

// maintain does what can wait. It leaves what is inside the cluster while a member raises an alarm.
func maintain(s *state) opinion {
	outdated, later := len(s.behind()) > 0, "nothing that is kept is missing or outdated"
	alarm := s.alarm()
	for _, c := range s.chores {
		switch {
		case c.Due == DueFirst, c.FromSpec && outdated:
		case c.Inside && alarm.decided: // the API server refuses to write it
			later += "; " + c.Message + ", and " + alarm.decision.Message
		case s.isDue(c, renewSoon):
			return s.write(c)
		default:
			later += "; " + s.tell(c)
		}
	}
	return pass("%s", later)
}

// waitForPerson waits for a person who does what Quorate cannot.
func (s *state) waitForPerson() opinion {
	if len(s.blocked) > 0 {
		return wait(s.blocked[0].Reason, "%s", s.blocked[0].Message)
	}
	return pass("no chore waits for a person")
}

// MakesKeys reports whether a step makes private keys, which takes the processor a while.
func (o Observed) MakesKeys(s Step) bool {
	for _, c := range o.Cluster.Chores {
		if s.Chore == c.Name {
			return !c.Inside
		}
	}
	return false
}
