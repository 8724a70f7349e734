package sim

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// Recoveries of etcd by a seed: most members, or all, are lost, and a person asks for a recovery and approves it. What internal/group and
// internal/manager/backups/recoveries do for it is done here in a few lines. The seed is found in the store or taken of a member that
// answers, the approval is one of a digest, and the snapshot is handed out to the machine that restores it.

// What happens to members, and to recoveries.
const (
	Disaster Kind = "disaster" // all members but N are lost, each in a way of its own, some For a while
	Ask      Kind = "ask"      // a person asks for a recovery, and approves it when its seed is there; N: see Recoverer.From
	Abort    Kind = "abort"    // somebody deletes the oldest EtcdRecovery
	Tamper   Kind = "tamper"   // somebody writes another backup into an EtcdRecovery as its seed
)

// recoverySalt keeps what is drawn of recoveries apart from what else is drawn of a seed.
const recoverySalt = 0x5eed5

// A Recoverer is the person who recovers a group that has no quorum.
type Recoverer struct {
	// After is how long that person waits for the quorum to return, Reads how long it takes from a seed to its approval. Off is how long a
	// machine may take to go before it is declared off; zero: it never is.
	After, Reads, Off time.Duration
	// From is where the seed comes from: 0 the best survivor, 1 the newest verified backup, 2 any backup that the store has.
	From int
	// Omits is the number of a machine that is not given up; 0: all are.
	Omits int
	// Tries is how many recoveries the person asks for.
	Tries int
	// Outdated: what is approved is what was there when the seed was shown, whatever has changed since.
	Outdated bool
}

// recoveredEtcdSalt keeps what is drawn of the kind apart from what else is drawn of a seed.
const recoveredEtcdSalt = 0xe7cd5

// Recovered makes of a seed the Setup of a group of the kind KubeadmControlPlane, or EtcdCluster, that loses its quorum, or all of its
// machines.
func Recovered(seed int64) Setup {
	s := random(seed)
	r := rand.New(rand.NewSource(seed ^ recoverySalt))
	s.Replicas, s.External, s.Sturdy, s.Recovers = pick(r, 1, 1, 3, 3, 3, 5), false, false, true
	if rand.New(rand.NewSource(seed^recoveredEtcdSalt)).Intn(4) == 0 && !s.Serial {
		s.makeEtcdOnly()
	}
	s.drawEager(seed)
	s.drawOverlap(seed)
	s.drawInPlace(seed)
	s.Script = slices.DeleteFunc(s.Script, func(e Event) bool {
		return slices.Contains([]Kind{LoseStatus, OrphanGroup, Recreate, Upstream, DeleteGroup}, e.Kind)
	})
	s.drawRecoverer(r)
	s.drawDisasters(r)
	if r.Intn(3) == 0 {
		s.Gate = pick(r, 10*time.Minute, time.Hour)
		s.Gated = map[int]bool{2: true, 3: r.Intn(2) == 0}
	}
	s.drawRetention(seed)
	return s
}

// drawRecoverer draws who recovers.
func (s *Setup) drawRecoverer(r *rand.Rand) {
	s.Recoverer = Recoverer{
		After: time.Duration(r.Intn(pick(r, 60, 600, 3600))) * time.Second, Reads: time.Duration(r.Intn(pick(r, 20, 300, 1800))) * time.Second,
		Off: pick(r, 0, time.Minute, 20*time.Minute), From: pick(r, 0, 0, 0, 1, 1, 2), Tries: pick(r, 1, 3, 3), Outdated: r.Intn(4) == 0,
	}
	if r.Intn(6) == 0 {
		s.Recoverer.Omits = 1 + r.Intn(3)
	}
	if r.Intn(3) == 0 {
		s.Remains = map[int]bool{1 + r.Intn(4): true, 1 + r.Intn(8): true}
	}
}

// drawDisasters draws what is lost, and what else happens then.
func (s *Setup) drawDisasters(r *rand.Rand) {
	at := time.Duration(300+r.Intn(1500)) * time.Second
	events := s.Script
	for range 2 + r.Intn(3) {
		kind := pick(r, TakeOne, TakeOne, TakeOne, StoreLies, StoreSlow)
		events = append(events, Event{At: time.Duration(r.Int63n(int64(at))), Kind: kind, N: r.Intn(4), For: randomSpan(r)})
	}
	for range 1 + r.Intn(2) {
		events = append(events, Event{At: at, Kind: Disaster, N: pick(r, 0, 0, 1, 1, 2), For: randomSpan(r)})
		if r.Intn(3) == 0 {
			events = append(events, Event{At: at - time.Duration(r.Intn(900))*time.Second, Kind: Backup})
			events = append(events, Event{At: at + time.Duration(r.Intn(300))*time.Second, Kind: Backup})
			events = append(events, Event{At: at + time.Duration(r.Intn(pick(r, 900, 5400)))*time.Second, Kind: Restore, For: randomSpan(r)})
		}
		for range r.Intn(5) {
			events = append(events, s.beside(r, at+time.Duration(r.Intn(pick(r, 300, 1800)))*time.Second))
		}
		at += time.Duration(1800+r.Intn(7200)) * time.Second
	}
	s.Script = inOrder(events...)
}

// beside draws what happens while a group is recovered.
func (s *Setup) beside(r *rand.Rand, at time.Duration) Event {
	e := Event{At: at, N: 1 + r.Intn(6), For: randomSpan(r)}
	e.Kind = pick(r, Ask, Ask, Abort, Tamper, Tamper, StoreDown, StoreSlow, StoreLies, Restart, Pause, Scale, Change, DeleteMachine,
		ForceDelete, Mark, Freeze, Reboot, Kill, Hide, Disown, Claim, Invalid, NoTemplate, NoInfra, NoEndpoint, NoAuthority, Refuse, BlindAPI,
		Disaster, DeleteGroup)
	switch e.Kind {
	case Scale:
		e.N = pick(r, 1, 3, 5)
	case Change, Ask, Disaster, StoreLies:
		e.N = r.Intn(3)
	case Invalid:
		e.N = r.Intn(2)
	case DeleteGroup:
		if r.Intn(4) > 0 {
			e.Kind = Restart
		}
	}
	if e.Kind == Change {
		e.N++
	}
	return e
}

// recovery is an EtcdRecovery.
type recovery struct {
	id          int
	made        time.Time
	backup      string // that is to be restored; empty: one of the best survivor
	giveUp, off []string
	seed        source
	sought      time.Time // when the seed is found; zero: nothing is under way
	shown       string    // the digest when the seed was shown first
	shownAt     time.Time
	approved    string // the digest that a person approved
	approvedAt  time.Time
	begun       bool
	ended       bool
	approvals   int
	misses      int  // how often nothing was there to take a seed of
	hasty       bool // a person approves it as soon as its seed is there
	wake        bool // the group wakes by it, and its spec approves it
	changes     int  // of its object
	fencing     map[string]time.Time
	missed      time.Time // since when the store has its seed no more
}

// source is the backup that a recovery restores, and which writes it holds.
type source struct {
	backup string
	holds  int
}

// digest is what a person approves.
func (r *recovery) digest() string {
	if r.seed.backup == "" {
		return ""
	}
	return fmt.Sprint(r.id, r.seed, slices.Sorted(slices.Values(r.giveUp)), slices.Sorted(slices.Values(r.off)))
}

// isApproved: a person approved the recovery as it is.
func (r *recovery) isApproved() bool { return r.approved != "" && r.approved == r.digest() }

// approve writes an approval of a digest down.
func (r *recovery) approve(digest string, now time.Time) {
	r.approved, r.approvedAt = digest, now.Truncate(time.Second)
	r.changes++
}

// archivist is what a world keeps of recoveries.
type archivist struct {
	all     []*recovery
	made    int
	dues    []time.Time
	lost    time.Time      // since when there is no quorum; zero: there is one
	broken  time.Time      // since when the machine that restores a seed is broken
	holds   map[string]int // which writes the backups hold, by their names
	began   int            // which writes the backup holds that is under way
	writes  int            // how many writes etcd acknowledged
	term    int            // how often etcd elected a leader
	saw     *recovery      // the recovery that the controller saw last, as it was then
	retired []*member      // of the clusters before the one that is
	former  bool           // the cluster lists where members of the one before are, which machines that join would ask
	cluster int            // which one that is
}

// recovering is what recoveries mean for a world, and who finds their seeds.
type recovering struct{ w *World }

// current is the recovery that is to be carried out; nil: there is none. One that has begun comes first, then the oldest.
func (r recovering) current() *recovery {
	var found *recovery
	for _, x := range r.w.recoveries.all {
		if !x.ended && (found == nil || x.begun && !found.begun) {
			found = x
		}
	}
	return found
}

// hasBegun: a recovery goes on, and nothing else is done.
func (r recovering) hasBegun() bool {
	x := r.current()
	return x != nil && x.begun
}

// befall is what happens to members and recoveries. It reports whether the event was such a one.
func (r recovering) befall(e Event) bool {
	switch e.Kind {
	case Disaster:
		r.strike(e)
	case Ask:
		if x := r.ask(e.N); x != nil {
			x.hasty = true
		}
	case Abort:
		r.abort()
	case Tamper:
		r.tamper()
	default:
		return false
	}
	return true
}

// strike lets all members be lost but some.
func (r recovering) strike(e Event) {
	hosts := slices.DeleteFunc(slices.Clone(r.w.hosts), func(h *host) bool { return h.member == nil || h.member.removed || !h.alive() })
	r.w.rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	r.w.tell("disaster: %d of %d members are left", min(e.N, len(hosts)), len(hosts))
	for i, h := range hosts {
		if i < e.N {
			continue
		}
		switch r.w.rand.Intn(6) {
		case 0, 1:
			r.w.tell("%s is lost", h.name)
			r.w.kill(h)
		case 2:
			r.w.tell("%s has lost its disk", h.name)
			r.w.stop(h.member)
		case 3, 4:
			r.w.tell("%s is off, and returns in %s", h.name, e.For)
			r.w.away(h, r.w.rand.Intn(2) == 0, e.For)
		default:
			r.w.tell("somebody deletes %s and takes its hook away", h.name)
			r.w.remove(h)
			h.forced = true
			r.w.release(h)
		}
	}
}

// ask is a person who asks for a recovery. That cannot be done while nothing is there to take a seed of, or is restored already.
func (r recovering) ask(from int) *recovery {
	w, a := r.w, &r.w.recoveries
	if !w.initialised || w.deleting || slices.ContainsFunc(a.all, func(x *recovery) bool { return !x.ended }) {
		return nil
	}
	x := &recovery{id: a.made + 1, made: w.now, fencing: map[string]time.Time{}, giveUp: r.namesToGiveUp()}
	has := w.archive.has
	switch newest, found := backups.NewestVerified(clusterUID, has, w.now); {
	case from == 1 && found:
		x.backup = newest.Name
	case from == 2 && len(has) > 0:
		x.backup = has[w.rand.Intn(len(has))].Name
	}
	a.made++
	a.all = append(a.all, x)
	w.tell("a person asks for recovery r%d from %q of %s", x.id, x.backup, strings.Join(x.giveUp, ", "))
	return x
}

// namesToGiveUp are the machines that a person knows of, or all but the one that is omitted, and the voters of those that are gone.
func (r recovering) namesToGiveUp() []string {
	w := r.w
	var names []string
	for _, h := range w.hosts {
		if h.hidden.IsZero() && !h.disowned && h.number != w.setup.Recoverer.Omits {
			names = append(names, h.name)
		}
	}
	for _, m := range w.members {
		if !m.learner && m.name != "" && !slices.Contains(w.hosts, m.host) && w.setup.Recoverer.Omits == 0 {
			names = append(names, m.name) // of a machine that is gone for good, as that person knows
		}
	}
	return names
}

// abort deletes the oldest recovery.
func (r recovering) abort() {
	if x := r.current(); x != nil {
		r.drop(x)
	}
}

// drop deletes a recovery.
func (r recovering) drop(x *recovery) {
	r.w.tell("somebody deletes recovery r%d", x.id)
	r.w.recoveries.all = slices.DeleteFunc(r.w.recoveries.all, func(o *recovery) bool { return o == x })
}

// tamper writes another backup into a recovery.
func (r recovering) tamper() {
	x := r.current()
	if x == nil || x.seed.backup == "" || len(r.w.archive.has) == 0 {
		return
	}
	other := r.w.archive.has[r.w.rand.Intn(len(r.w.archive.has))].Name
	r.w.tell("somebody makes backup %s the seed of recovery r%d", other, x.id)
	x.seed = source{other, r.w.recoveries.holds[other]}
	x.changes++
}

// add is what can be seen of recoveries.
func (r recovering) add(o *plan.Observed) {
	x := r.current()
	r.w.recoveries.saw = nil
	r.addOff(o)
	if x == nil {
		return
	}
	if sleeper(r).allows(x) {
		x.approve(x.digest(), r.w.now)
		x.changes-- // nothing is written
	} else if x.wake {
		x.approved = ""
	}
	seen := *x
	r.w.recoveries.saw = &seen
	o.Recovery = plan.Recovery{
		Name: fmt.Sprint("r", x.id), Seed: x.seed.backup, Begun: x.begun,
		GiveUp: slices.Sorted(slices.Values(x.giveUp)), Off: slices.Sorted(slices.Values(x.off)),
	}
	if x.isApproved() {
		o.Recovery.Approved = x.approvedAt
	}
	for i := range o.Machines {
		m := &o.Machines[i]
		h := r.w.named(m.Name)
		m.Seeded = h.seededBy == x.id
		if m.Gone = m.Gone || x.begun && h.vanished; m.Gone && m.CannotJoin == "" {
			m.CannotJoin = "nothing is left of it"
		}
	}
}

// addOff is what can be seen of machines that a person declared off, also after the end of the recovery.
func (r recovering) addOff(o *plan.Observed) {
	for i := range o.Machines {
		m := &o.Machines[i]
		if m.Off = m.Deleting && r.isOff(m.Name); m.Off && m.CannotJoin == "" {
			m.CannotJoin = "a person declared it off for a recovery"
		}
	}
}

// isOff reports whether a person declared a machine off, in a recovery that has begun.
func (r recovering) isOff(name string) bool {
	return slices.ContainsFunc(r.w.recoveries.all, func(x *recovery) bool {
		return x.begun && x.isApproved() && slices.Contains(x.off, name)
	})
}

// do carries out a step of a recovery, or of a hibernation. Its object is written only as it was seen.
func (r recovering) do(s plan.Step) error {
	if !isOfRecovery(s) {
		return sleeper(r).do(s)
	}
	if s.Verb == plan.GiveUp {
		if h := r.w.named(s.Machine); h != nil {
			r.giveUp(h)
		}
		return nil
	}
	x, saw := r.current(), r.w.recoveries.saw
	if x == nil || saw == nil || x.id != saw.id || x.changes != saw.changes {
		return errors.New("the recovery has changed since it was read")
	}
	if s.Verb == plan.EndRecovery {
		if err := sleeper(r).wakes(); err != nil {
			return err
		}
	}
	x.changes++
	if s.Verb == plan.BeginRecovery {
		x.begun = true
		return nil
	}
	x.ended = true
	return nil
}

// giveUp deletes a machine, which nothing holds from then on, and which is not drained.
func (r recovering) giveUp(h *host) {
	if !h.deleting {
		h.deleting, h.drained = true, r.w.now
	}
	h.hook, h.forced, h.givenUp = true, true, true // its member is not asked
	r.w.release(h)
}

// seeds makes a host the one that restores the seed of the recovery that was seen.
func (r recovering) seeds(h *host) error {
	saw := r.w.recoveries.saw
	if saw == nil || !slices.ContainsFunc(r.w.recoveries.all, func(x *recovery) bool { return x.id == saw.id }) {
		return errors.New("the recovery is not there any more")
	}
	h.seededBy, h.seed, h.first, h.held = saw.id, saw.seed, true, false
	return nil
}

// isHandedOut: the snapshot that a host restores can be fetched: its recovery goes on, the store answers, and it is the one that the host's
// data name.
func (r recovering) isHandedOut(h *host) bool {
	i := slices.IndexFunc(r.w.recoveries.all, func(x *recovery) bool { return x.id == h.seededBy })
	if i < 0 || r.w.lasts(StoreDown, 0) {
		return false
	}
	x := r.w.recoveries.all[i]
	other := func(o *host) bool { return o != h && o.seededBy == h.seededBy && !o.deleting && !o.isForgotten() }
	if (recoveryJudge{r}).serves() && !r.w.lasts(BlindAPI, 0) {
		return false // a cluster that serves is not one of those that were given up
	}
	if h.deleting || slices.ContainsFunc(r.w.hosts, other) {
		return false // who was given up begins no cluster, however late it is, and none of two does
	}
	has := slices.ContainsFunc(r.w.archive.has, func(b backups.Stored) bool { return b.Name == h.seed.backup })
	return x.begun && !x.ended && x.seed == h.seed && has
}

// plant begins another etcd cluster on a host, with the data of its seed. Members of the one before know nothing of it.
func (r recovering) plant(h *host) {
	w, a := r.w, &r.w.recoveries
	judgePlanted(w, h)
	w.tell("%s restores backup %s", h.name, h.seed.backup)
	for _, m := range w.members {
		m.excused = r.isExcused(m.host)
		a.retired = append(a.retired, m)
		if o := m.host; o != h && o.member == m {
			o.old, o.member = m, &member{id: m.id, host: o, name: m.name, removed: true, cluster: m.cluster}
		}
		if o := m.host; o != h && o.isForgotten() && o.ends.IsZero() {
			o.ends = w.now.Add(time.Minute) // no etcd that is asked holds it any more
		}
	}
	a.cluster++
	a.writes, a.former = h.seed.holds, !w.setup.EtcdOnly
	w.members, w.leader, w.struck = nil, nil, nil
	h.member = w.add(h, false)
	w.run(h.member)
	h.member.holds = a.writes
	w.begins(h.member)
}

// isExcused: a member may return beside the cluster that a seed begins: a person declared its machine off, or it is one that is not known.
func (r recovering) isExcused(h *host) bool {
	x := r.current()
	return !h.hidden.IsZero() && (h.seededBy == 0 || h.isForgotten()) || h.disowned || x != nil && slices.Contains(x.off, h.name)
}

// acknowledge lets etcd acknowledge a write. Not every member has it at once, and a majority does.
func (r recovering) acknowledge() {
	w, a := r.w, &r.w.recoveries
	if !w.hasLeader() {
		return
	}
	a.writes++
	_, all := w.voters()
	least := all/2 + 1
	for i, m := range append([]*member{w.leader}, w.members...) {
		if !m.running || m.holds == a.writes {
			continue
		}
		if !m.learner {
			least--
		}
		if least >= 0 || (i+a.writes)%3 > 0 {
			m.holds, m.term = a.writes, a.term
		}
	}
}

// fetches: a host can restore the seed that it was made for. Its program gives up after some minutes.
func (r recovering) fetches(h *host) bool {
	if r.isHandedOut(h) {
		return true
	}
	if h.patience.IsZero() {
		h.patience = r.w.now.Add(10 * time.Minute)
	}
	return false
}
