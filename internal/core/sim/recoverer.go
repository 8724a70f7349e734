package sim

import (
	"slices"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
)

// at notes when something is done next.
func (r recovering) at(t time.Time) { r.w.recoveries.dues = append(r.w.recoveries.dues, t) }

// isTime: a moment has come; else it is noted.
func (r recovering) isTime(t time.Time) bool {
	if r.w.now.Before(t) {
		r.at(t)
		return false
	}
	return true
}

// keep is what is done about recoveries: etcd goes on, seeds are found, and a person asks for recoveries, approves them, and declares off
// what does not go.
func (r recovering) keep() {
	w, a := r.w, &r.w.recoveries
	a.dues = a.dues[:0]
	if !w.setup.Recovers {
		return
	}
	r.acknowledge()
	if w.deleting || w.finished {
		return
	}
	r.react()
	for _, x := range slices.Clone(a.all) {
		if !x.ended {
			r.seek(x)
		}
	}
	if x := r.current(); x != nil {
		r.attend(x)
	}
}

// react is a person who waits for a quorum to return, and then asks for a recovery.
func (r recovering) react() {
	w, a := r.w, &r.w.recoveries
	if w.hasQuorum() || !w.initialised || (sleeper{w}).isAsleep() {
		a.lost = time.Time{}
		return
	}
	if a.lost.IsZero() {
		a.lost = w.now
	}
	if r.current() == nil && a.made < w.setup.Recoverer.Tries && r.isTime(a.lost.Add(w.setup.Recoverer.After)) {
		r.ask(w.setup.Recoverer.From)
	}
}

// seek finds the seed of a recovery: the backup that is named, or one of the member with the newest data of those that answer.
func (r recovering) seek(x *recovery) {
	w := r.w
	if x.seed.backup != "" || w.lasts(StoreDown, 0) {
		x.sought = time.Time{}
		return
	}
	if x.sought.IsZero() {
		x.sought = w.now.Add(time.Duration(2+w.rand.Intn(30)) * time.Second)
		if w.lasts(StoreSlow, 0) {
			x.sought = x.sought.Add(10 * time.Minute)
		}
	}
	if !r.isTime(x.sought) {
		return
	}
	x.sought = time.Time{}
	if x.backup == "" {
		r.takeSurvivor(x)
		return
	}
	i := slices.IndexFunc(w.archive.has, func(b backups.Stored) bool { return b.Name == x.backup })
	if i < 0 || refuses(w.archive.has[i]) {
		w.tell("the seed of recovery r%d is refused: backup %s", x.id, x.backup)
		r.drop(x)
		return
	}
	r.found(x, x.backup)
}

// refuses: nothing is recovered from a backup.
func refuses(b backups.Stored) bool { return b.UID != clusterUID || !b.Verified }

// takeSurvivor takes a backup of the member with the newest data.
func (r recovering) takeSurvivor(x *recovery) {
	w, a := r.w, &r.w.recoveries
	var answer []backups.Survivor
	for _, m := range w.members {
		if m.running && !m.learner && m.name != "" && slices.Contains(w.hosts, m.host) && !w.setup.Forwarded && w.isAsked(m) {
			answer = append(answer, backups.Survivor{Name: m.id, Term: uint64(m.term), Applied: uint64(m.holds)})
		}
	}
	best, found := backups.Best(answer)
	if !found {
		if newest, has := backups.NewestVerified(clusterUID, w.archive.has, w.now); has { // a person takes what there is
			x.backup = newest.Name
			x.changes++
		}
		if x.misses++; x.misses > 3 {
			r.drop(x)
		}
		r.at(w.now.Add(time.Minute))
		return
	}
	for _, s := range answer {
		if s.Applied > best.Applied {
			w.blame("the seed is taken of %s, which lacks writes that %s has", best.Name, s.Name)
		}
	}
	name := w.archive.store(w.now)
	a.holds[name] = int(best.Applied)
	gate{w}.read()
	r.found(x, name)
}

// found writes the seed into a recovery.
func (r recovering) found(x *recovery, name string) {
	x.seed = source{name, r.w.recoveries.holds[name]}
	x.changes++
	r.w.tell("the seed of recovery r%d is backup %s, with %d of %d writes", x.id, name, x.seed.holds, r.w.recoveries.writes)
	x.shown, x.shownAt = x.digest(), r.w.now
}

// attend is a person who looks after a recovery.
func (r recovering) attend(x *recovery) {
	if x.wake {
		r.discard(x)
		return
	}
	r.declareOff(x)
	r.approve(x)
	r.discard(x)
	r.missSeed(x)
	if !x.begun && r.w.hasQuorum() && r.isTime(x.made.Add(30*time.Minute)) {
		r.abort()
	}
}

// approve is a person's approval of what is shown, or was.
func (r recovering) approve(x *recovery) {
	lapsed := !x.begun && r.w.hasPassed(x.approvedAt.Add(plannedApproval))
	if x.seed.backup == "" || x.isApproved() && !lapsed || x.approvals > 3 || x.approvals > 0 && !x.begun && r.w.hasQuorum() {
		return
	}
	reads := r.w.setup.Recoverer.Reads
	if x.hasty {
		reads = 0
	}
	since := x.shownAt
	if x.approvedAt.After(since) {
		since = x.approvedAt
	}
	if !r.isTime(since.Add(reads)) {
		return
	}
	digest := x.digest()
	if r.w.setup.Recoverer.Outdated && x.approved == "" {
		digest = x.shown
	}
	r.w.tell("a person approves recovery r%d", x.id)
	x.approve(digest, r.w.now)
	x.approvals++
	r.at(r.w.now.Add(reads + time.Minute))
}

// plannedApproval is for how long an approval can begin a recovery.
const plannedApproval = 15 * time.Minute

// declareOff is a person who declares machines off that do not go.
func (r recovering) declareOff(x *recovery) {
	most := r.w.setup.Recoverer.Off
	if !x.begun || most == 0 {
		return
	}
	for _, h := range r.w.hosts {
		if !r.w.isOurs(h) || !r.w.isDoomed(h) || h.vanished || slices.Contains(x.off, h.name) {
			continue
		}
		if x.fencing[h.name].IsZero() {
			x.fencing[h.name] = r.w.now
		}
		if r.isTime(x.fencing[h.name].Add(most)) {
			r.w.tell("a person declares %s off", h.name)
			x.off = append(x.off, h.name)
			x.shownAt = r.w.now
			x.changes++
		}
	}
}

// discard is a person who deletes a machine that cannot restore the seed, or the recovery where a machine is there that was not given up.
func (r recovering) discard(x *recovery) {
	w, a := r.w, &r.w.recoveries
	h := first(w.hosts, func(h *host) bool { return h.seededBy == x.id && !h.deleting && h.hidden.IsZero() })
	switch {
	case h == nil || !h.broken() && (h.stage == up && !r.isSplit() || !r.isTime(h.created.Add(40*time.Minute))):
		a.broken = time.Time{}
	case a.broken.IsZero():
		a.broken = w.now
		r.at(w.now.Add(20 * time.Minute))
	case r.isTime(a.broken.Add(20 * time.Minute)):
		w.tell("a person deletes %s", h.name)
		w.remove(h)
		a.broken = time.Time{}
	}
	if h == nil && x.hasStranger(w) && a.made < w.setup.Recoverer.Tries && r.isTime(x.made.Add(time.Hour)) {
		r.abort()
	}
}

// missSeed is a person who gives a recovery up whose seed somebody deleted.
func (r recovering) missSeed(x *recovery) {
	if x.seed.backup == "" || keeper(r).holds(x.seed.backup) {
		x.missed = time.Time{}
		return
	}
	if x.missed.IsZero() {
		x.missed = r.w.now
	}
	if r.isTime(x.missed.Add(time.Hour)) {
		r.drop(x)
	}
}

// isSplit: another voter joined the etcd of the seed, and most voters cannot be asked.
func (r recovering) isSplit() bool {
	answering, voters := r.w.answering()
	return voters > 1 && answering <= voters/2
}

// hasStranger: a machine is there that the recovery does not give up.
func (x *recovery) hasStranger(w *World) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.hidden.IsZero() && h.seededBy != x.id && !slices.Contains(x.giveUp, h.name)
	})
}
