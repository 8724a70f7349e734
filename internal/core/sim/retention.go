package sim

import (
	"math/rand"
	"slices"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// Retention deletes old backups, one after the other, as internal/manager/backups does after each backup. It works from a list that was
// read before, by a manager that may die after each of them, beside another manager, and beside people who delete backups themselves. A
// deletion of the group may wait for a last backup.

// retentionSalt keeps what is drawn of retention apart from what else is drawn of a seed.
const retentionSalt = 0x4e7a1

// keeper is the retention of a world.
type keeper struct{ w *World }

// deletes are the backups that a manager is about to delete.
type deletes struct {
	names []string
	// read is when the store was read, and due when the next one is deleted.
	read, due time.Time
	// held are those that recoveries were to restore then.
	held []string
}

// drawRetention has old backups be deleted in groups that have some, and some deletions wait for a last backup.
func (s *Setup) drawRetention(seed int64) {
	r := rand.New(rand.NewSource(seed ^ retentionSalt))
	if s.External || s.Operated {
		return
	}
	if s.LastBackup = r.Intn(4) == 0; s.LastBackup && s.Recovers && r.Intn(3) == 0 {
		s.Script = inOrder(append(s.Script, Event{At: time.Duration(r.Intn(4*3600)) * time.Second, Kind: DeleteGroup})...)
	}
	if s.Gate == 0 && !s.Recovers || r.Intn(4) == 0 {
		return
	}
	s.Retention = backups.Retention{Last: pick(r, 1, 1, 2, 3), Hourly: pick(r, 0, 0, 2), Daily: pick(r, 0, 0, 1)}
	for range 2 + r.Intn(6) {
		e := Event{At: time.Duration(r.Intn(3*3600)) * time.Second, Kind: pick(r, TakeOne, TakeOne, TakeOne, StoreSlow, StoreLies), N: r.Intn(4),
			For: randomSpan(r)}
		if r.Intn(5) == 0 {
			e.Kind, e.N = pick(r, StoreLoses, TwoManagers, TwoManagers), r.Intn(3)
		}
		s.Script = inOrder(append(s.Script, e)...)
	}
}

// begin reads what the store has, and begins to delete what retention does not keep.
func (k keeper) begin(r backups.Retention) {
	a := &k.w.archive
	d := deletes{read: k.w.now, due: k.w.now.Add(k.takes()), held: k.held()}
	all := slices.Clone(a.has)
	for i := range all {
		all[i].Held = slices.Contains(d.held, all[i].Name)
	}
	if d.names = backups.Expired(r, clusterUID, all, k.w.now); len(d.names) > 0 {
		a.deletes = append(a.deletes, d)
	}
}

// takes is how long the deletion of one backup takes.
func (k keeper) takes() time.Duration {
	if k.w.lasts(StoreSlow, 0) {
		return time.Duration(10+k.w.now.Unix()%600) * time.Second
	}
	return time.Duration(1+k.w.now.Unix()%3) * time.Second
}

// held are the backups that recoveries restore, or will.
func (k keeper) held() []string {
	var names []string
	for _, x := range k.w.recoveries.all {
		if !x.ended {
			names = append(names, x.backup, x.seed.backup)
		}
	}
	return names
}

// moments are when something may happen by itself.
func (k keeper) moments(at func(time.Time)) {
	for _, d := range k.w.archive.deletes {
		at(d.due)
	}
	if last := k.w.archive.last; !last.IsZero() {
		at(last.Add(patienceForLast))
	}
}

// keep deletes what is due.
func (k keeper) keep() {
	a := &k.w.archive
	for i := range a.deletes {
		d := &a.deletes[i]
		if k.w.now.Before(d.due) {
			continue
		}
		name := d.names[0]
		d.names, d.due = d.names[1:], k.w.now.Add(k.takes())
		k.judge(name, *d)
		if k.holds(name) {
			a.deleted++
		}
		k.remove(name)
	}
	a.deletes = slices.DeleteFunc(a.deletes, func(d deletes) bool { return len(d.names) == 0 })
}

// remove takes a backup out of the store.
func (k keeper) remove(name string) {
	k.w.archive.has = slices.DeleteFunc(k.w.archive.has, func(b backups.Stored) bool { return b.Name == name })
}

// holds: the store has a backup.
func (k keeper) holds(name string) bool {
	return slices.ContainsFunc(k.w.archive.has, func(b backups.Stored) bool { return b.Name == name })
}

// rob is somebody who deletes the newest verified backup, or another one.
func (k keeper) rob(n int) {
	a := &k.w.archive
	newest, found := backups.NewestVerified(clusterUID, a.has, k.w.now)
	if n > 0 && len(a.has) > 0 {
		newest, found = a.has[n%len(a.has)], true
	}
	if !found || k.w.lasts(StoreDown, 0) {
		return
	}
	k.w.tell("somebody deletes backup %s", newest.Name)
	k.remove(newest.Name)
	a.robbed, a.read = k.w.now, false
}

// judge: retention deletes neither the newest verified backup of the cluster, nor one of another cluster, nor one that a recovery restores.
// What somebody else deleted since the store was read it cannot know.
func (k keeper) judge(name string, d deletes) {
	all := k.w.archive.has
	i := slices.IndexFunc(all, func(b backups.Stored) bool { return b.Name == name })
	if i < 0 {
		return
	}
	later := func(b backups.Stored) bool {
		return b.UID == clusterUID && b.Verified && b.Name != name && !b.Taken.Before(all[i].Taken) && b.Taken.Before(k.w.now.Add(2*time.Minute))
	}
	switch {
	case all[i].UID != clusterUID:
		k.w.blame("backup %s is deleted, which is of cluster %s", name, all[i].UID)
	case slices.Contains(d.held, name):
		k.w.blame("backup %s is deleted, which a recovery restores", name)
	case all[i].Verified && !slices.ContainsFunc(all, later) && !k.w.archive.robbed.After(d.read):
		k.w.blame("backup %s is deleted, which is the newest that is verified", name)
	}
}

// patienceForLast is how long a person waits for a last backup.
const patienceForLast = 3 * time.Hour

// end begins to wait for a last backup, where the deletion of a group needs one.
func (k keeper) end() {
	if k.w.setup.LastBackup && k.w.initialised {
		k.w.archive.last = k.w.now.Truncate(time.Second)
	}
}

// waive is a person who does not wait any longer for a last backup.
func (k keeper) waive() {
	a := &k.w.archive
	if !a.last.IsZero() && a.lacksLast(k.w.now) && !k.w.now.Before(a.last.Add(patienceForLast)) {
		k.w.tell("a person deletes the group without a last backup")
		a.last = time.Time{}
	}
}

// judgeLast: no machine of a group that is being deleted goes for that before a backup was taken since, where one is required.
func (k keeper) judgeLast(s plan.Step) {
	a := &k.w.archive
	if a.last.IsZero() || !k.w.ending() || s.Verb != plan.Delete && s.Verb != plan.ReleaseHook && s.Verb != plan.RemoveMember {
		return
	}
	if !slices.ContainsFunc(a.proven, func(b backups.Stored) bool { return !b.Taken.Before(a.last) }) {
		k.w.blame("%s, and no verified backup was taken since the group is being deleted", s)
	}
}
