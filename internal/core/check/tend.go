package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// isRequested: a person asked for something within the last hour.
func isRequested(o plan.Observed, at time.Time) bool {
	since := o.Now.Sub(at)
	return since >= 0 && since < time.Hour
}

// checkAsked: a person asked for a defragmentation, and the member is well, has something to give back, and was not defragmented since.
func checkAsked(o plan.Observed, m plan.Member) error {
	free := m.Size - m.InUse
	switch {
	case !isRequested(o, o.Etcd.Requests.Defragment):
		return errors.New("no person asked for a defragmentation")
	case m.Health != plan.Healthy || isCorrupt(m):
		return fmt.Errorf("member %s is not well", m.ID)
	case free < 1<<20 || free < m.Size/20:
		return fmt.Errorf("the data of member %s need what they take", m.ID)
	case !m.Defragmented.Before(o.Etcd.Requests.Defragment):
		return fmt.Errorf("member %s was defragmented since a person asked for it", m.ID)
	}
	return nil
}

// checkDefragmentAtRest: nothing else is wrong or under way, and the member has enough to give back, by the spec or because a person asked.
// It does not answer meanwhile.
func checkDefragmentAtRest(o plan.Observed, s plan.Step) error {
	m, err := memberNamed(o, s.Member)
	if err != nil {
		return err
	}
	if err := checkAllWell(o); err != nil {
		return err
	}
	voters := len(o.Etcd.Members)
	if m.Leader && voters > 1 {
		return fmt.Errorf("member %s leads: it hands over first", m.ID)
	}
	if checkAsked(o, m) == nil {
		return nil
	}
	switch limits := o.Policy.Defragment; {
	case limits.FreePercent <= 0:
		return errors.New("neither the spec nor a person asks for a defragmentation")
	case m.Size < limits.MinSize || m.Size-m.InUse < m.Size/100*int64(limits.FreePercent):
		return fmt.Errorf("the data of member %s need most of what they take", m.ID)
	case o.Now.Sub(m.Defragmented) < time.Hour:
		return fmt.Errorf("member %s was defragmented a moment ago", m.ID)
	case voters == 2 || voters == 1 && !limits.Single:
		return fmt.Errorf("none of %d members can be spared", voters)
	}
	return checkOpen(o, "member "+m.ID+" is to be defragmented")
}

// checkAllWell: each member is a healthy voter without an alarm on a machine of its own that stays, and none was defragmented a moment ago.
func checkAllWell(o plan.Observed) error {
	if len(o.Etcd.StrayAlarms) > 0 {
		return errors.New(o.Etcd.StrayAlarms[0])
	}
	for _, m := range o.Etcd.Members {
		_, err := machineNamed(o, m.Machine)
		switch {
		case err != nil:
			return fmt.Errorf("member %s is on no known machine", m.ID)
		case m.Learner || m.Health != plan.Healthy || len(m.Alarms) > 0:
			return fmt.Errorf("member %s is no healthy voter without an alarm", m.ID)
		case o.Now.Sub(m.Defragmented) < 30*time.Second:
			return fmt.Errorf("member %s was defragmented a moment ago", m.ID)
		}
	}
	for _, m := range o.Machines {
		if m.Deleting || len(membersOn(o, m.Name)) != 1 {
			return fmt.Errorf("%s goes, or has no member", m.Name)
		}
	}
	return nil
}
