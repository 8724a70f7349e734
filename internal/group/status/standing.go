package status

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Standing is what the gauges tell of one group. What is not known has no figure: the last good
// one would hide that nothing answers.
type Standing struct {
	// Reachable reports whether the cluster's API server answers; nil: the group has none, or none is expected to answer.
	Reachable *bool
	// Etcd is what its members say; nil: they do not, or are not Quorate's to keep.
	Etcd *EtcdStanding
	// CertificateEnds are when the first certificate of each name expires, as far as that is known.
	CertificateEnds map[string]time.Time
	// Addons are whether add-ons work, by their names, without those of which it is not known or not reported.
	Addons map[string]bool
	// Waits is what the group waits for; the zero value: it does not wait.
	Waits Waiting
}

// EtcdStanding is what the members of a group's etcd say.
type EtcdStanding struct {
	// Spare is how many more healthy voters may fail.
	Spare            int
	Voters, Learners int
	// Alarms are how many members raise each alarm.
	Alarms map[string]int
	// Differing is how many members have other data than a majority; nil: their data were not compared.
	Differing *int
	// Sizes and Quotas are bytes of the members' data, taken and allowed, by the names of their machines. They lack what is not told.
	Sizes, Quotas map[string]int64
}

// Waiting is a wait for one reason by one rule. The zero value: there is none.
type Waiting struct {
	Rule, Reason string
	Since        time.Time
}

// etcdStands is what the members of the group's etcd say.
func (t Report) etcdStands() *EtcdStanding {
	e := &EtcdStanding{
		Spare: etcd.NewBallot(t.Assessed.Voters, nil).Spare(), Differing: comparison{t}.differing(),
		Alarms: map[string]int{}, Sizes: map[string]int64{}, Quotas: map[string]int64{},
	}
	for _, m := range t.Facts.Etcd.Members {
		if m.Learner {
			e.Learners++
		} else {
			e.Voters++
		}
		for _, alarm := range m.Alarms {
			e.Alarms[alarm]++
		}
	}
	hosts := t.Match(t.Survey.Members).Hosts
	for _, m := range t.Survey.Members {
		e.note(hosts[m.ID], m.Size, m.Quota)
	}
	return e
}

// note notes the size of the data on one machine, and its quota, where they are told.
func (e *EtcdStanding) note(machine string, size, quota int64) {
	if machine == "" {
		return
	}
	if size > 0 {
		e.Sizes[machine] = size
	}
	if quota > 0 {
		e.Quotas[machine] = quota
	}
}
