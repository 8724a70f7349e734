package check

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
)

// checkEnableDowngrade allows etcd to be lowered by one minor version, to that which is wanted, while all members answer,
// none joins or may but one of that version, and another could.
func checkEnableDowngrade(o plan.Observed, s plan.Step) error {
	if err := checkLowered(o); err == nil {
		return errors.New("no member keeps data that would have to be lowered")
	}
	if err := checkMembership(o); err != nil {
		return err
	}
	if o.Etcd.Downgrade != "" {
		return fmt.Errorf("a downgrade to %s is enabled already", o.Etcd.Downgrade)
	}
	if err := checkLacking(o, "etcd would be lowered"); err != nil {
		return err
	}
	want, _ := version.Parse(o.Want.EtcdVersion)
	if s.Version != fmt.Sprintf("%d.%d", want.Major, want.Minor) {
		return fmt.Errorf("%s is not what is wanted, %s", s.Version, o.Want.EtcdVersion)
	}
	for _, m := range o.Etcd.Members {
		if m.Learner {
			return fmt.Errorf("member %s is a learner: etcd is lowered when no member joins", m.ID)
		}
		if data := dataOf(m); version.CompareMinor(data, version.Version{Major: want.Major, Minor: want.Minor + 1}) != 0 {
			return fmt.Errorf("member %s keeps data of %s: one minor version at a time", m.ID, data)
		}
	}
	for _, m := range o.Machines {
		if (m.Outdated != "" || m.Deleting) && mayStillAdd(o, m) {
			return fmt.Errorf("%s may still add a learner that is not of %s, or that goes with it: etcd starts none while it is lowered",
				m.Name, s.Version)
		}
	}
	if err := checkSurroundings(o); err != nil {
		return err
	}
	return checkJoin(o)
}

// dataOf is the version of a member's data; zero: not known.
func dataOf(m plan.Member) version.Version {
	if v, err := version.Parse(m.Storage); err == nil {
		return v
	}
	v, _ := version.Parse(m.Version)
	return v
}

// checkLowered: no voter keeps data that a machine made now could not read. What is not known may be such.
func checkLowered(o plan.Observed) error {
	want, err := version.Parse(o.Want.EtcdVersion)
	if err != nil {
		return nil
	}
	for _, m := range o.Etcd.Members {
		if data := dataOf(m); !m.Learner && (data == version.Version{} || version.CompareMinor(data, want) > 0) {
			return fmt.Errorf("member %s keeps data of %s: etcd %s cannot join", m.ID, data, want)
		}
	}
	return nil
}

// checkNewJoin allows a machine that is made now to join.
func checkNewJoin(o plan.Observed) error {
	if err := checkNoPlaceholder(o); err != nil {
		return err
	}
	if err := checkLowered(o); err != nil {
		return err
	}
	if err := checkNobodyUpdated(o); err != nil {
		return err
	}
	if err := checkJoinChores(o); err != nil {
		return err
	}
	return checkJoin(o)
}

// checkCancelDowngrade allows a downgrade to end that is not wanted, or that a member of the older version, or one that has not started,
// outlasts.
func checkCancelDowngrade(o plan.Observed) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	to, err := version.Parse(o.Etcd.Downgrade)
	if err != nil {
		return errors.New("no downgrade is enabled")
	}
	want, err := version.Parse(o.Want.EtcdVersion)
	if err != nil {
		return errors.New("the version of etcd is not ours to change")
	}
	if version.CompareMinor(want, to) != 0 {
		return nil
	}
	for _, m := range o.Etcd.Members {
		runs, err := version.Parse(m.Version)
		if m.Name == "" || err == nil && version.CompareMinor(runs, to) <= 0 {
			return nil
		}
	}
	return fmt.Errorf("the downgrade to %s is wanted, and no member would keep etcd there", o.Etcd.Downgrade)
}
