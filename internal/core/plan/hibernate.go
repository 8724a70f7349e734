package plan

import (
	"fmt"
	"strings"
)

// hibernate lets the machines of a group go that hibernates, and wakes it. Each of these things is found again from what is noted and from
// the machines that are there.
func hibernate(s *state) opinion {
	p := s.Power
	switch {
	case p.Backup != "":
		return hibernating{s}.goOn()
	case !p.Hibernate && !p.Requested.IsZero():
		return do(Step{Verb: EndHibernation}, "HibernationCancelled", "%s is to run again, and none of its machines was let go", s.Group.Name)
	}
	return pass("%s is not hibernated", s.Group.Name)
}

// hibernating is the state of a group whose hibernation has noted its backup.
type hibernating struct{ *state }

// goOn lets the machines go, rests without one, or wakes the group.
func (s hibernating) goOn() opinion {
	p := s.Power
	for _, m := range s.machines {
		if !m.isReleased() {
			return do(Step{Verb: GiveUp, Machine: m.Name}, "Hibernating", "%s hibernates, and wakes from backup %s, taken at %s",
				s.Group.Name, p.Backup, timeText(p.Taken))
		}
	}
	switch {
	case !p.Hibernate && s.Recovery.Name == "":
		return do(Step{Verb: Wake}, "Waking", "%s is to run again, from backup %s, taken at %s", s.Group.Name, p.Backup, timeText(p.Taken))
	case !p.Hibernate:
		return wait("Waking", "recovery %s from backup %s is prepared%s%s", s.Recovery.Name, p.Backup, troubled(s.Recovery.Trouble), s.answers())
	case len(s.machines) > 0:
		return wait("Hibernating", "waiting for the infrastructure of %s to be deleted: %s", count(len(s.machines), "machine"), names(s.machines))
	}
	return wait("Hibernated", "hibernated since %s; spec.powerState Running wakes it from backup %s, taken at %s%s",
		timeText(p.Since), p.Backup, timeText(p.Taken), s.answers())
}

// answers says that a cluster runs that should not, as after the management cluster was restored to a time at which it was hibernated.
func (s hibernating) answers() string {
	if !s.Cluster.Reachable {
		return ""
	}
	return fmt.Sprintf("; but an API server answers at %s, of a machine that the management cluster does not know, and while it does nothing "+
		"is restored: docs/hibernate.md", s.Cluster.Endpoint)
}

// troubled adds what keeps something back to a message.
func troubled(text string) string {
	if text == "" {
		return ""
	}
	return "; " + text
}

// prepareHibernation makes ready what must be before the first machine goes.
func prepareHibernation(s *state) opinion {
	p, b := s.Power, s.Group.Backup
	switch {
	case !p.Hibernate:
		return pass("%s is to run", s.Group.Name)
	case !s.Etcd.Ours():
		return wait("HibernationRefused", "spec.powerState is Hibernated, and etcd does not run on the machines of %s: set it to Running",
			s.Group.Name)
	case p.Refused != "":
		return wait("HibernationRefused", "%s", p.Refused)
	case !s.Group.Initialized:
		return wait("HibernationRefused", "no cluster was initialised yet, so that there is nothing to wake again: set spec.powerState "+
			"to Running")
	case len(p.Running) > 0:
		return do(Step{Verb: BeginHibernation}, "Hibernating", "%s hibernates: its workers are scaled to 0: %s", s.Group.Name,
			strings.Join(p.Running, ", "))
	case p.Requested.IsZero():
		return do(Step{Verb: BeginHibernation}, "Hibernating", "%s hibernates, and has no workers to scale", s.Group.Name)
	case len(s.Workers) > 0:
		return wait("Hibernating", "%s of the cluster must go first: %s", count(len(s.Workers), "other machine"), strings.Join(s.Workers, ", "))
	case !b.Required.After(p.Requested):
		return do(Step{Verb: RequestBackup}, "Hibernating", "the workers are gone, and a backup is taken from which %s wakes", s.Group.Name)
	case (gate{s}).isAsked():
		return wait("Hibernating", "waiting for a verified backup that was taken at %s or later, from which %s wakes%s", timeText(b.Required),
			s.Group.Name, troubled(b.Trouble))
	}
	return do(Step{Verb: Hibernate}, "Hibernating", "%s wakes from backup %s, taken at %s; its machines go", s.Group.Name, b.Name,
		timeText(b.Taken))
}

// endHibernation gives the workers of a group that has woken their numbers back.
func endHibernation(s *state) opinion {
	if !s.Power.Woken {
		return pass("no workers wait for the end of a hibernation")
	}
	return do(Step{Verb: EndHibernation}, "Woken", "%s has woken: its workers get their numbers back", s.Group.Name)
}
