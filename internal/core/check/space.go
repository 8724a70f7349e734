package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkSpace allows what ends the alarm NOSPACE, while a member raises it, and what the spec or a person asks for.
func checkSpace(o plan.Observed, s plan.Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	if err := checkNobodyUpdated(o); err != nil {
		return err
	}
	switch s.Verb {
	case plan.Compact:
		return checkCompact(o, s)
	case plan.Defragment:
		if isAlarmed(o) {
			return checkDefragment(o, s)
		}
		return checkDefragmentAtRest(o, s)
	}
	return checkDisarm(o)
}

// isAlarmed: a member raises NOSPACE.
func isAlarmed(o plan.Observed) bool { return slices.ContainsFunc(o.Etcd.Members, raisesNoSpace) }

func raisesNoSpace(m plan.Member) bool { return slices.Contains(m.Alarms, "NOSPACE") }

// checkDisarm: the alarm is ended when all members have space, or once as a person asked.
func checkDisarm(o plan.Observed) error {
	asked := isRequested(o, o.Etcd.Requests.Disarm) && o.Etcd.Disarmed.Before(o.Etcd.Requests.Disarm)
	if asked && (isAlarmed(o) || len(o.Etcd.StrayAlarms) > 0) {
		return nil
	}
	if !isAlarmed(o) {
		return errors.New("no member of etcd raises NOSPACE")
	}
	for _, m := range o.Etcd.Members {
		counts := m.Health == plan.Healthy && !isCorrupt(m) || raisesNoSpace(m) && m.Health != plan.Unhealthy
		if counts && (m.Size <= 0 || m.Size/9 >= m.Quota/10) {
			return fmt.Errorf("member %s has no space, or it is not known: the alarm stays", m.ID)
		}
	}
	return nil
}

// checkCompact: what etcd had within the last minute stays, and a compaction is not repeated.
func checkCompact(o plan.Observed, s plan.Step) error {
	if !isAlarmed(o) {
		return errors.New("no member of etcd raises NOSPACE")
	}
	if s.Revision != o.Etcd.CompactTo || s.Revision <= o.Etcd.Compacted {
		return fmt.Errorf("revision %d is not the one of a minute ago, %d, or was compacted to before", s.Revision, o.Etcd.CompactTo)
	}
	if since := o.Now.Sub(o.Etcd.CompactedAt); since < time.Minute {
		return fmt.Errorf("etcd was compacted %s ago", since)
	}
	return nil
}

// checkDefragment: the member has space to give back. It does not answer meanwhile: the others are a majority without it, and it leads only
// where no other can.
func checkDefragment(o plan.Observed, s plan.Step) error {
	m, err := memberNamed(o, s.Member)
	if err != nil {
		return err
	}
	alive, voters := besides(o, m)
	if checkAsked(o, m) == nil && alive == voters-1 && (!m.Leader || voters == 1) {
		return nil
	}
	if err := checkSparse(o, m); err != nil {
		return err
	}
	switch {
	case m.Learner || voters == 1:
		return nil
	case m.Leader:
		return fmt.Errorf("member %s leads: it hands over first", m.ID)
	case 2*alive <= voters:
		return fmt.Errorf("without member %s %d of %d voters would answer", m.ID, alive, voters)
	}
	return nil
}

// checkSparse: a member answers, is full, and its data may not need all that they take.
func checkSparse(o plan.Observed, m plan.Member) error {
	switch {
	case m.Health != plan.Healthy || isCorrupt(m):
		return fmt.Errorf("member %s is not well", m.ID)
	case m.Size <= 0 || m.Size/9 < m.Quota/10:
		return fmt.Errorf("member %s has space", m.ID)
	case m.Defragmented.Before(o.Etcd.CompactedAt): // what was freed is not counted yet
	case m.InUse/4 > m.Size/5:
		return fmt.Errorf("the data of member %s need what they take", m.ID)
	case o.Now.Before(m.Defragmented.Add(5 * time.Minute)):
		return fmt.Errorf("member %s was defragmented a moment ago", m.ID)
	}
	return nil
}

// besides counts the voters: those beside a member that are well, on machines that stay, and all.
func besides(o plan.Observed, m plan.Member) (alive, voters int) {
	for _, other := range o.Etcd.Members {
		if other.Learner {
			continue
		}
		voters++
		on, err := machineNamed(o, other.Machine)
		if other.ID != m.ID && other.Health == plan.Healthy && !isCorrupt(other) && err == nil && !isReleased(on) {
			alive++
		}
	}
	return alive, voters
}
