package sim

import (
	"cmp"
	"math/rand"
	"slices"
	"strconv"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where a change of the spec waits for a verified backup of etcd. Another controller takes these, as internal/manager/backups
// does: when one is requested, from a store that is down, slow, or has what it should not have.

// What happens to the store, and to who takes backups.
const (
	StoreDown Kind = "store down" // For a while: nothing is taken, and nothing is read
	StoreSlow Kind = "store slow" // For a while: a backup takes up to an hour
	StoreLies Kind = "store lies" // the store has a backup that is not this cluster's newest verified one, whatever it says: see lie
	TakeOne   Kind = "take one"   // a backup that the schedule asks for

	StoreLoses  Kind = "store loses"  // somebody deletes the newest verified backup; N more than 0: another one
	TwoManagers Kind = "two managers" // the manager of an older management cluster deletes by its own retention what the store has now
)

// gateSalt keeps what is drawn of backups before changes apart from what else is drawn of a seed.
const gateSalt = 0xbac09

// clusterUID is the cluster's in the store.
const clusterUID = "u1"

// drawGate asks for backups before changes in some groups.
func (s *Setup) drawGate(seed int64) {
	r := rand.New(rand.NewSource(seed ^ gateSalt))
	if s.External || r.Intn(5) > 0 {
		return
	}
	s.Gate = pick(r, 10*time.Minute, time.Hour, time.Hour)
	s.GateSingle = r.Intn(3) == 0
	s.Gated = map[int]bool{2: true, 1 + r.Intn(3): r.Intn(2) == 0}
	for _, e := range slices.Clone(s.Script) {
		if e.Kind != Change {
			continue
		}
		if r.Intn(2) == 0 {
			s.Script = inOrder(append(s.Script, Event{At: max(0, e.At-time.Minute), Kind: StoreDown, For: time.Minute + randomSpan(r)})...)
		}
		if r.Intn(3) == 0 {
			s.disturbStore(r, max(0, e.At+time.Duration(r.Intn(300)-120)*time.Second))
		}
	}
	// Another spec is wanted while machines come up, which are not well for a while: a failure more, without surge, than a sturdy world has.
	if r.Intn(2) == 0 && !s.Sturdy {
		at := time.Duration(40+r.Intn(300)) * time.Second
		s.Script = inOrder(append(s.Script, Event{At: at - time.Second, Kind: StoreDown, For: time.Duration(1+r.Intn(20)) * time.Minute},
			Event{At: at, Kind: Change, N: 2},
			Event{At: at + time.Duration(r.Intn(60))*time.Second, Kind: pick(r, Sicken, Crash), N: 1 + r.Intn(3), For: 2 * time.Minute})...)
		if !s.NodeOnly {
			s.Surge = r.Intn(2)
		}
	}
	for range r.Intn(3) {
		s.disturbStore(r, time.Duration(r.Intn(1800))*time.Second)
	}
}

// disturbStore has something happen to the store.
func (s *Setup) disturbStore(r *rand.Rand, at time.Duration) {
	e := Event{At: at, Kind: pick(r, StoreDown, StoreDown, StoreSlow, StoreLies, StoreLies, TakeOne), N: r.Intn(4), For: randomSpan(r)}
	s.Script = inOrder(append(s.Script, e)...)
}

// archive is the store of backups, and what is known of it.
type archive struct {
	// has are the backups in the store, those that are not what they should be among them. proven are the verified ones that were truly
	// taken of this cluster, also where the store has them no more.
	has, proven []backups.Stored
	lies        int
	// deleted counts what retention deleted.
	deleted int
	// noted is what is written on the group's object: the newest verified backup, and since when one is needed.
	noted plan.Backup
	// began and due are when the backup that is under way was begun and ends; zero: none is.
	began, due time.Time
	// asked: the schedule asks for one. read: the store was read since something was put there.
	asked, read bool
	// deletes are what managers are about to delete, each in its order.
	deletes []deletes
	// robbed is when somebody else last deleted a backup.
	robbed time.Time
	// last is since when a deletion of the group waits for a last backup; zero: it does not, or a person said that it need not.
	last time.Time
}

// gate is what backups mean for changes of a world, and who takes them.
type gate struct{ w *World }

// befall is what happens to the store. It reports whether the event was such a one.
func (g gate) befall(e Event) bool {
	switch e.Kind {
	case StoreDown, StoreSlow:
		g.w.tell("%s for %s", e.Kind, e.For)
		g.w.prolong(e, 0)
	case StoreLies:
		g.lie(e.N)
	case TakeOne:
		g.w.archive.asked = true
	case StoreLoses:
		keeper(g).rob(e.N)
	case TwoManagers:
		keeper(g).begin(backups.Retention{Last: 1})
	default:
		return false
	}
	return true
}

// lie puts something into the store that is no newest verified backup of this cluster.
func (g gate) lie(n int) {
	b := backups.Stored{Name: "lie" + strconv.Itoa(g.w.archive.lies), UID: clusterUID, Taken: g.w.now, Verified: true}
	switch n {
	case 0: // a bucket was copied
		b.UID = "u2"
	case 1: // it could not be restored
		b.Verified = false
	case 2: // a clock was wrong, and is for longer than any life lasts
		b.Taken = g.w.now.Add(100000 * time.Hour)
	default: // an old one is written again
		b.Taken = g.w.now.Add(-cmp.Or(g.w.setup.Gate, 24*time.Hour) - time.Second)
		if last := g.w.archive.last; !last.IsZero() && !b.Taken.Before(last) {
			b.Taken = last.Add(-time.Second)
		}
	}
	g.w.tell("the store has a backup of %s taken at %s, verified %t", b.UID, b.Taken.Sub(g.w.start), b.Verified)
	g.w.archive.has = append(g.w.archive.has, b)
	g.w.archive.lies++
	g.w.archive.read = false
}

// isWanted: a backup is to be taken: the schedule asks for one, or a change needs one that is not there.
func (a *archive) isWanted(now time.Time) bool {
	since := a.noted.Required
	newest, found := backups.NewestVerified(clusterUID, a.has, now)
	return a.asked || !since.IsZero() && (!found || newest.Taken.Before(since)) || a.lacksLast(now)
}

// lacksLast: a deletion of the group waits for a last backup.
func (a *archive) lacksLast(now time.Time) bool {
	newest, found := backups.NewestVerified(clusterUID, a.has, now)
	return !a.last.IsZero() && (!found || newest.Taken.Before(a.last))
}

// keep is what who takes backups does by itself, and what the store does.
func (g gate) keep() {
	a := &g.w.archive
	keeper(g).waive()
	if !g.isUsed() || g.w.lasts(StoreDown, 0) {
		a.began, a.due, a.deletes = time.Time{}, time.Time{}, nil
		return
	}
	keeper(g).keep()
	if !a.read {
		g.read()
	}
	joins := slices.ContainsFunc(g.w.members, func(m *member) bool { return m.learner || m.name == "" })
	fit := a.isWanted(g.w.now) && g.w.hasLeader() && !joins && (!g.w.deleting || a.lacksLast(g.w.now))
	if fit && a.due.IsZero() {
		a.began, g.w.recoveries.began = g.w.now, g.w.recoveries.writes
		a.asked = false
	}
	takes := time.Duration(3+int(g.w.now.Unix()%20)) * time.Second
	if g.w.lasts(StoreSlow, 0) {
		takes = time.Duration(60+int(g.w.now.Unix()%3600)) * time.Second
	}
	if g.w.ripe(&a.due, fit || !a.began.IsZero() && g.w.hasLeader(), takes) {
		g.w.tell("a backup that was begun at %s is verified", a.began.Sub(g.w.start))
		g.w.recoveries.holds[a.store(a.began)] = g.w.recoveries.began
		a.began = time.Time{}
		g.read()
		keeper(g).begin(g.w.setup.Retention)
		g.keep() // another may have been asked for meanwhile
	}
}

// isUsed: backups are taken in the world.
func (g gate) isUsed() bool { return g.w.setup.Gate > 0 || g.w.setup.Recovers || g.w.setup.LastBackup }

// store adds a verified backup of the cluster, and returns its name.
func (a *archive) store(began time.Time) string {
	name, taken := "b"+strconv.Itoa(len(a.proven)+1), began.Truncate(time.Second)
	stored := backups.Stored{Name: name, UID: clusterUID, Taken: taken, Verified: true}
	a.has, a.proven = append(a.has, stored), append(a.proven, stored)
	return name
}

// read notes the newest verified backup on the group's object.
func (g gate) read() {
	a := &g.w.archive
	a.read = true
	newest, found := backups.NewestVerified(clusterUID, a.has, g.w.now)
	if a.noted.Name, a.noted.Taken = "", (time.Time{}); found {
		a.noted.Name, a.noted.Taken = newest.Name, newest.Taken
	}
}

// add is what can be seen of backups.
func (g gate) add(o *plan.Observed) {
	if g.w.setup.Gate == 0 && !g.w.setup.LastBackup {
		return
	}
	o.Policy.MaxBackupAge, o.Policy.BackupBeforeSingle, o.Group.Backup = g.w.setup.Gate, g.w.setup.GateSingle, g.w.archive.noted
	o.Group.Backup.Last = g.w.archive.last
	if g.w.lasts(StoreDown, 0) {
		o.Group.Backup.Trouble = "the store does not answer"
	}
}

// needs says for what a host needs a backup before it becomes what is wanted; empty: for nothing.
func (g gate) needs(h *host) string {
	if g.w.setup.Gate == 0 || h.spec == g.w.spec || !g.w.setup.Gated[h.spec] && !g.w.setup.Gated[g.w.spec] {
		return ""
	}
	return "spec " + strconv.Itoa(h.spec) + " -> " + strconv.Itoa(g.w.spec)
}

// lacks: a change waits for a backup, as far as the truth goes.
func (g gate) lacks() bool {
	s := g.w.setup
	young := func(b backups.Stored) bool {
		return g.w.now.Sub(b.Taken) <= s.Gate && (!g.w.archive.read || keeper(g).holds(b.Name))
	}
	if s.Gate == 0 || slices.ContainsFunc(g.w.archive.proven, young) {
		return false
	}
	single := s.GateSingle && len(g.w.hosts) == 1
	return slices.ContainsFunc(g.w.hosts, func(h *host) bool {
		return g.w.isStaying(h) && (g.needs(h) != "" || single && g.w.isChangedInPlace(h))
	})
}

// holds: a change waits for a backup, or for the store, which alone knows of one that is not noted: the group's object is restored from an
// older state.
func (g gate) holds() bool {
	noted := g.w.now.Sub(g.w.archive.noted.Taken) <= g.w.setup.Gate
	return g.lacks() || g.w.setup.Gate > 0 && !noted && g.w.lasts(StoreDown, 0)
}

// judge: nothing of a change that needs a backup begins without a verified one of this cluster that is young enough, whatever the store
// says, and one is requested once.
func (g gate) judge(s plan.Step, fresh bool) {
	// A hibernation needs a backup of its own.
	a, since := &g.w.archive, g.w.power.noted.Requested
	if fresh && s.Verb == plan.RequestBackup && a.noted.Required.After(since) && a.isWanted(g.w.now) && !a.asked {
		g.w.blame("%s, and one was asked for and has not come", s)
	}
	if fresh {
		keeper(g).judgeLast(s)
	}
	if !fresh || g.w.deleting || !g.w.initialised || !g.lacks() {
		return
	}
	if what, begins := beginsChange(g.w, s); begins {
		g.w.blame("%s, %s, and no verified backup of the cluster is younger than %s", s, what, g.w.setup.Gate)
	}
}
