package sim

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// Hibernation: a person switches a cluster off and on again, whatever else happens. What internal/group and the controllers of backups and
// recoveries do for it is done here in a few lines: numbers of workers are kept, the backup is noted, and the spec approves the recovery.

// What a person wants.
const (
	Hibernate Kind = "hibernate" // no machine is to run
	WakeUp    Kind = "wake up"   // they are to run again
)

// hibernationSalt keeps what is drawn of hibernations apart from what else is drawn of a seed.
const hibernationSalt = 0x51ee9

// restoredSleepSalt keeps what is drawn of the management cluster's backups apart from what else is drawn of a seed.
const restoredSleepSalt = 0x0d51ee9

// Hibernated makes of a seed the Setup of a group that a person switches off and on.
func Hibernated(seed int64) Setup {
	s := random(seed)
	r := rand.New(rand.NewSource(seed ^ hibernationSalt))
	s.Replicas, s.External, s.Sturdy, s.Recovers, s.Hibernates, s.Workers = pick(r, 1, 1, 3, 3, 3, 5), false, false, true, true, true
	s.drawEager(seed)
	s.drawOverlap(seed)
	s.drawInPlace(seed)
	s.Remains = nil // a machine that never goes is one of TestHibernationsByName
	s.Script = slices.DeleteFunc(s.Script, func(e Event) bool {
		return slices.Contains([]Kind{LoseStatus, OrphanGroup, Recreate, Upstream, DeleteGroup}, e.Kind)
	})
	at := time.Duration(300+r.Intn(1500)) * time.Second
	events := s.Script
	for range 1 + r.Intn(3) {
		events = append(events, Event{At: at, Kind: Hibernate})
		for range r.Intn(4) {
			events = append(events, s.besideSleep(r, at+time.Duration(r.Intn(pick(r, 120, 600, 3600)))*time.Second))
		}
		at += time.Duration(r.Intn(pick(r, 60, 240, 900, 7200))) * time.Second
		if r.Intn(5) > 0 {
			events = append(events, Event{At: at, Kind: WakeUp})
		}
		for range r.Intn(3) {
			events = append(events, s.besideSleep(r, at+time.Duration(r.Intn(pick(r, 120, 600)))*time.Second))
		}
		at += time.Duration(r.Intn(pick(r, 120, 900, 7200))) * time.Second
	}
	s.Script = inOrder(events...)
	if o := rand.New(rand.NewSource(seed ^ restoredSleepSalt)); o.Intn(3) == 0 {
		s.Script = inOrder(append(s.Script, betweenTimes(o, at)...)...)
	}
	return s
}

// betweenTimes has the management cluster restored, once or twice, to what it was before, within a time.
func betweenTimes(r *rand.Rand, within time.Duration) []Event {
	var events []Event
	for range 1 + r.Intn(2) {
		at := time.Duration(300+r.Int63n(int64(within/time.Second))) * time.Second
		events = append(events, Event{At: at, Kind: Backup})
		at += time.Duration(r.Intn(pick(r, 120, 900, 7200))) * time.Second
		events = append(events, Event{At: at, Kind: Restore, For: randomSpan(r)})
	}
	return events
}

// besideSleep draws what happens while a person switches a group off and on.
func (s *Setup) besideSleep(r *rand.Rand, at time.Duration) Event {
	e := Event{At: at, N: 1 + r.Intn(6), For: randomSpan(r)}
	e.Kind = pick(r, StoreDown, StoreDown, StoreSlow, StoreLies, TakeOne, TakeOne, Restart, Restart, Pause, Scale, Change, DeleteMachine, Mark,
		Reboot, Crash, Freeze, BlindAPI)
	switch e.Kind {
	case Scale:
		e.N = pick(r, 1, 3, 5)
	case Change, StoreLies:
		e.N = 1 + r.Intn(3)
	}
	return e
}

// power is what a world keeps of a hibernation.
type power struct {
	hibernate bool // what the person wants
	// noted is what is written on the group's object.
	noted plan.Power
	// scaled: the workers' numbers are 0, and kept. away is when the last of their machines is gone; zero: they are there, or go.
	scaled bool
	going  time.Time
	away   time.Time
	// machines are those that were let go.
	machines []string
	// changes counts those of the group's object, and saw how many the controller saw.
	changes, saw int
	// slept counts how often all machines were gone, woke how often the group served again, and cancelled how often it never went.
	slept, woke, cancelled int
}

// sleeper is a world whose group may be switched off.
type sleeper struct{ w *World }

// isAsleep: machines go, or are gone, and no recovery has begun that brings them back.
func (z sleeper) isAsleep() bool { return z.w.power.noted.Backup != "" && !recovering(z).hasBegun() }

// recall brings back what the objects of an earlier time say: the group's own, and those of the workers. What happened is not undone.
func (z sleeper) recall(was power) {
	p := &z.w.power
	was.changes, was.slept, was.woke, was.cancelled = p.changes+1, p.slept, p.woke, p.cancelled
	was.machines = slices.Clone(was.machines)
	*p = was
}

// befall is what a person wants. It reports whether the event was such a one.
func (z sleeper) befall(e Event) bool {
	if e.Kind != Hibernate && e.Kind != WakeUp {
		return false
	}
	p := &z.w.power
	z.w.tell("a person wants: %s", e.Kind)
	p.hibernate = e.Kind == Hibernate
	p.changes++
	return true
}

// keep is what happens by itself: workers go and come, and the spec approves the recovery by which the group wakes.
func (z sleeper) keep() {
	w, p := z.w, &z.w.power
	if !w.setup.Hibernates {
		return
	}
	if p.scaled && p.away.IsZero() && w.ripe(&p.going, true, time.Duration(10+w.now.Unix()%90)*time.Second) {
		w.tell("the workers are gone")
		p.away = w.now
	}
	if !p.scaled {
		p.going, p.away = time.Time{}, time.Time{}
	}
	if z.isAsleep() && len(w.hosts) == 0 && !p.noted.Woken {
		p.slept = max(p.slept, p.woke+1)
	}
}

// add is what can be seen of a hibernation.
func (z sleeper) add(o *plan.Observed) {
	w, p := z.w, &z.w.power
	if !w.setup.Hibernates {
		return
	}
	o.Power = p.noted
	o.Power.Hibernate = p.hibernate
	if o.Power.Woken {
		o.Power = plan.Power{Hibernate: p.hibernate, Woken: true}
	}
	if p.hibernate && !p.scaled && p.noted.Backup == "" {
		o.Power.Running = []string{"md-0"}
	}
	if !p.away.IsZero() {
		o.Workers = nil
	}
	o.Group.Backup = w.archive.noted
	if w.lasts(StoreDown, 0) {
		o.Group.Backup.Trouble = "the store does not answer"
	}
	if x := recovering(z).current(); x != nil && x.wake {
		o.Recovery.Approved = time.Time{}
		if z.allows(x) {
			o.Recovery.Approved = w.now
		}
	}
}

// allows: the spec approves the recovery by which the group wakes, or did when it began.
func (z sleeper) allows(x *recovery) bool { return x.wake && (x.begun || !z.w.power.hibernate) }

// do carries out a step of a hibernation. The group's object is written only as it was seen.
func (z sleeper) do(s plan.Step) error {
	w, p := z.w, &z.w.power
	if p.saw != p.changes && s.Verb != plan.Wake {
		return errors.New("the group has changed since it was read")
	}
	now := w.now.Truncate(time.Second)
	switch s.Verb {
	case plan.BeginHibernation:
		p.noted, p.scaled = plan.Power{Requested: now}, true
	case plan.Hibernate:
		p.noted.Backup, p.noted.Taken, p.noted.Since = w.archive.noted.Name, w.archive.noted.Taken, now
		p.machines = nil
		for _, h := range w.hosts {
			p.machines = append(p.machines, h.name)
		}
	case plan.Wake:
		return z.wake()
	default:
		if !p.noted.Requested.IsZero() && !p.noted.Woken {
			p.cancelled++
		}
		p.noted, p.scaled = plan.Power{}, false
	}
	p.changes++
	p.saw = p.changes
	return nil
}

// wake creates the recovery by which the group wakes, unless it is there.
func (z sleeper) wake() error {
	w, a := z.w, &z.w.recoveries
	if slices.ContainsFunc(a.all, func(x *recovery) bool { return !x.ended }) {
		return nil
	}
	a.made++
	x := &recovery{id: a.made, made: w.now, fencing: map[string]time.Time{}, wake: true, backup: w.power.noted.Backup}
	x.giveUp = slices.Clone(w.power.machines)
	for _, h := range w.hosts {
		if !slices.Contains(x.giveUp, h.name) {
			x.giveUp = append(x.giveUp, h.name)
		}
	}
	a.all = append(a.all, x)
	w.tell("recovery r%d is to wake the group from %s", x.id, x.backup)
	return nil
}

// wakes notes that the group serves again from the backup of its hibernation.
func (z sleeper) wakes() error {
	p := &z.w.power
	if p.noted.Backup == "" || p.noted.Woken {
		return nil
	}
	if p.saw != p.changes {
		return errors.New("the group has changed since it was read")
	}
	p.noted.Woken = true
	p.woke++
	p.changes++
	p.saw = p.changes
	return nil
}

// judge: no machine goes for a hibernation before the truth has a verified backup of a cluster whose workers were gone, and nothing is
// begun on the way.
func (z sleeper) judge(s plan.Step, fresh bool) {
	w, p := z.w, &z.w.power
	if !w.setup.Hibernates || !fresh {
		return
	}
	switch s.Verb {
	case plan.Hibernate, plan.GiveUp:
		z.judgeBackup(s)
	case plan.Create, plan.Delete, plan.UpdateInPlace, plan.StartBootstrap:
		h := w.named(s.Machine)
		finishes := s.Verb == plan.UpdateInPlace && h != nil && h.update != nil
		if p.hibernate && !w.deleting && !recovering(z).hasBegun() && !finishes {
			w.blame("%s, and the group is to hibernate", s)
		}
	case plan.EndHibernation:
		if p.noted.Backup != "" && !p.noted.Woken {
			w.blame("%s, and machines have gone", s)
		}
	}
}

// judgeBackup: there truly is a backup from which the group wakes, and it was taken since the workers are gone.
func (z sleeper) judgeBackup(s plan.Step) {
	w, p := z.w, &z.w.power
	name := p.noted.Backup
	if s.Verb == plan.Hibernate {
		name = w.archive.noted.Name
	} else if !z.isAsleep() {
		return // a recovery gives it up
	}
	i := slices.IndexFunc(w.archive.proven, func(b backups.Stored) bool { return b.Name == name })
	if i < 0 || p.away.IsZero() || w.archive.proven[i].Taken.Before(p.away.Truncate(time.Second)) {
		w.blame("%s, and no verified backup was taken since the workers are gone", s)
	}
}

// asWanted says what of a hibernation is not as the person wants it.
func (z sleeper) asWanted() error {
	p := z.w.power
	if z.w.setup.Hibernates && (p.scaled || p.noted.Backup != "" || !p.noted.Requested.IsZero()) {
		return errors.New("the hibernation has not ended")
	}
	return nil
}

// knowsHost: the management cluster has a Machine.
func (z sleeper) knowsHost() bool {
	return slices.ContainsFunc(z.w.hosts, func(h *host) bool { return h.hidden.IsZero() })
}

// sleepDecisions are those about a hibernation that only a person may take.
var sleepDecisions = []personalDecision{
	{[]string{"Hibernated"}, func(w *World, said string) bool {
		return w.power.hibernate && w.power.scaled && !sleeper{w}.knowsHost() && (!w.reachable() || strings.Contains(said, "answers at"))
	}},
	{[]string{"Waking"}, func(w *World, said string) bool { // a cluster runs that the restored management cluster does not know
		return !sleeper{w}.knowsHost() && w.reachable() && strings.Contains(said, "answers at")
	}},
	{[]string{"Hibernating"}, func(w *World, said string) bool { return w.isNamed(said, (*host).remains) }},
	{[]string{"HibernationRefused"}, func(w *World, _ string) bool { return w.power.hibernate && !w.initialised }},
}
