package observe

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Furthest is how far an etcd had come when its members told it last while it had a quorum. The zero value: that was not seen.
type Furthest struct {
	Revision int64
	At       time.Time
}

// remains finds what a group can be recovered from.
type remains struct{ *Observer }

// add adds what a group can be recovered from that has no quorum, or no machine. While it has a quorum, how far it has come is remembered.
func (t remains) add() {
	votes := len(t.Machines) > 0 && t.Survey.HasQuorum()
	if votes {
		t.noteFurthest()
	}
	if votes || !t.Type.Seeds || !t.Spec.HoldsQuorum || !t.Facts.Group.Initialized {
		return
	}
	r := &t.Facts.Remains
	r.Recoverable, r.ForwardOnly = true, t.ForwardOnly && !t.Nodeless && len(t.Machines) > 0
	r.SeenRevision, r.Seen = int(t.Memory.Furthest.Revision), t.Memory.Furthest.At
	if last := t.Kind.Status(t.Object).Backup; last != nil {
		v := last.LastVerified
		r.Backup = plan.StoredBackup{Name: v.Name, Taken: v.Time.Time, Revision: int(v.Revision)}
	}
	newest, answered := t.Survey.Newest()
	if r.Survivors = answered; answered > 0 {
		r.Survivor = plan.Survivor{
			Machine: cmp.Or(t.MachineOf(newest), newest.At),
			Term:    int(newest.Term), Entry: int(newest.Applied), Revision: int(newest.Revision),
		}
	}
}

// noteFurthest remembers how far an etcd with a quorum has come.
func (t remains) noteFurthest() {
	f := &t.Memory.Furthest
	for _, m := range t.Survey.Members {
		if m.Revision > 0 {
			f.Revision = max(f.Revision, m.Revision)
			f.At = t.Memory.Surveys.At.Truncate(time.Second)
		}
	}
}
