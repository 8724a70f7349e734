package sim

import (
	"math/rand"
	"time"

	backups "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
)

// A Setup is all that a world depends on. The same Setup gives the same life.
type Setup struct {
	// Seed decides how long things take, and when chance strikes.
	Seed int64
	// Replicas, MaxParallel and Domains are what the user asks for at first.
	Replicas    int
	MaxParallel int
	Domains     []string
	// External: etcd is not on the machines.
	External bool
	// NodeOnly: the group is of the kind ControlPlane. Of what a machine runs only its Node is known, and their
	// bootstrap provider keeps what these read as they join.
	NodeOnly bool
	// Operated: an operator in the cluster keeps etcd on the machines. To the bootstrap provider it is elsewhere.
	Operated bool
	// ShrinkHealthy: a machine that is not outdated is taken away only while all that came up are healthy.
	ShrinkHealthy bool
	// EtcdOnly: the group is of the kind EtcdCluster. Machines run a member of etcd and nothing else.
	EtcdOnly bool
	// Minors are the minor versions of etcd 3 of the specs, by their numbers, where a change of the spec changes that; nil: none does.
	Minors map[int]int
	// Eager: machines are made while the first initialises the cluster, and held back.
	Eager bool
	// Overlap: a rollout with surge does not wait for the infrastructure of a machine that has left.
	Overlap bool
	// Serial: kubeadm joins etcd as a voter, as it did before v1.29.
	Serial bool
	// Lenient: etcd takes a new member while those voters that are connected stay a majority with
	// it, as it does since v3.6.11; before, all voters must be connected.
	Lenient bool
	// InPlace says which machines of another spec are updated in place, Fixed which specs, by their numbers, no machine can be changed to
	// or from in place, and UpdateFails how many of 100 updates fail.
	InPlace     plan.InPlace
	Fixed       map[int]bool
	UpdateFails int
	// Surge is how many machines more than wanted a rollout may have: 1 or 0.
	Surge int
	// Bad are the specs, by their numbers, of which no machine comes up, or to what it should be.
	Bad map[int]Fate
	// Checks: a health check marks machines whose Node is not ready, or never came, as
	// long as they are no more than the quorum can lose.
	Checks bool
	// Repair limits how often the same machine is replaced.
	Repair plan.RepairLimits
	// Workers: the cluster has other machines, which go some time after the group is deleted.
	Workers bool
	// Boot, Drain and Leave are how long at most machines take to start, to be drained, and to go
	// once their hook was released, where some take longer than seconds; 0: none does.
	Boot, Drain, Leave time.Duration
	// Boots is how long machines hang before kubeadm runs on them, by their numbers, and MemberAdd how long the user says that may take; 0:
	// nothing is said.
	Boots     map[int]time.Duration
	MemberAdd time.Duration
	// Gates is how long at most somebody takes to pass the readiness gates of a machine that has come
	// up; 0: machines have none.
	Gates time.Duration
	// Remains are the machines, by their numbers, whose infrastructure never goes, so that
	// their hosts live on.
	Remains map[int]bool
	// NodeFirst: kubeadm registers the Node before etcd joins, as it did before v1.31.
	NodeFirst bool
	// Provable: it is found again from machines that joined that a cluster was initialised.
	Provable bool
	// Reports: the provider says when the bootstrap of a machine failed.
	Reports bool
	// Places: the machine of a member is known from its address, before its Node is.
	Places bool
	// Forwarded: etcd can be asked only by port-forwards through an API server.
	Forwarded bool
	// Fates are what happens to the machines as they come up, by their numbers.
	Fates map[int]Fate
	// Script is what people and accidents do, in the order of time.
	Script []Event
	// Luck is how often, out of 100 steps, each of these happens.
	Luck Luck
	// Approval: a person must approve each spec before machines are brought up to it.
	Approval bool
	// Windows are when machines may begin to be brought up to another spec.
	Windows Windows
	// Tidy is how members of etcd are defragmented at rest.
	Tidy Tidy
	// Limit is how many machines at most a rollout replaces, or changes in place, within a day at first; 0: no limit.
	Limit int
	// Ahead is by how much the clock is ahead of the manager that notes replacements: another reads the notes.
	Ahead time.Duration
	// Gate is how old a verified backup may be before a change between specs of which one is in Gated, by its number; 0: none is needed.
	// GateSingle: one is needed before the only machine is changed in place.
	Gate       time.Duration
	Gated      map[int]bool
	GateSingle bool
	// Retention is which backups are kept; the zero value: all. LastBackup: a deletion of the group waits for a last one.
	Retention  backups.Retention
	LastBackup bool
	// ByExtension: a Runtime Extension of somebody else updates machines in place, which says at first what Answer is the number of: it can
	// change all, not all, or nothing.
	ByExtension bool
	Answer      int
	// Faultless: nothing takes so long that somebody gives up, and no update in place hangs.
	Faultless bool
	// Sturdy: once all was as wanted, the quorum may never be lost, whatever the
	// reason: it is the promise for groups of three and more with one failure.
	Sturdy bool
	// Recovers: a person recovers the group when its quorum is lost. Recoverer is what that person does.
	Recovers  bool
	Recoverer Recoverer
	// Hibernates: a person may switch the group off and on.
	Hibernates bool
}

// Luck is how often, out of 100 steps, something goes wrong between the group's
// controller and the world.
type Luck struct {
	// Dropped steps do nothing and report an error.
	Dropped int
	// Repeated steps are done twice.
	Repeated int
	// CutShort: the controller dies in the middle of a step, and starts again.
	CutShort int
	// Stale: what is observed is up to two looks old, though not older than the last write.
	Stale int
	// Mixed: the machines, their Nodes and etcd's members are of different moments, each a few
	// seconds old at most.
	Mixed int
	// Blind: the API server, or etcd, or one member cannot be asked.
	Blind int
}

// A Fate is what happens to a machine that comes up: it stops at a stage.
type Fate struct {
	At Stage
	// Dies: the host is lost, with all on it. Else it goes on without making progress,
	// or, having come up, has a Node that is never ready, or a component that is never healthy.
	Dies bool
	Sick bool
}

// An Event is what a person or an accident does at a moment of a world's life.
type Event struct {
	At   time.Duration
	Kind Kind
	// N is the number of a machine, of replicas or of a spec.
	N int
	// For is how long it lasts, where it ends.
	For time.Duration
}

// Kind is a kind of event.
type Kind string

// The kinds of events. A machine that is not there is left alone.
const (
	Scale         Kind = "scale"          // to N replicas
	DeleteMachine Kind = "delete machine" // N, as with kubectl
	ForceDelete   Kind = "force delete"   // N without its hook: its member stays
	DeleteGroup   Kind = "delete group"
	Kill          Kind = "kill"    // the host of machine N
	Freeze        Kind = "freeze"  // the host of machine N, For a while
	Reboot        Kind = "reboot"  // the host of machine N, which is back after a while
	Outage        Kind = "outage"  // etcd on all machines, For a while
	Crash         Kind = "crash"   // etcd on machine N, For a while
	Hang          Kind = "hang"    // etcd on machine N stands still, For a while
	Refuse        Kind = "refuse"  // etcd refuses the controller's certificate, For a while
	Restart       Kind = "restart" // the controller: it forgets what it saw
	Pause         Kind = "pause"   // the cluster, For a while
	Change        Kind = "change"  // the spec, to that of number N; the first is 1
	Mark          Kind = "mark"    // machine N, to be replaced, well as it may be
	Choose        Kind = "choose"  // machine N, to go when one must
	Unready       Kind = "unready" // the Node of machine N, For a while
	Sicken        Kind = "sicken"  // a component of machine N, For a while
	Gate          Kind = "gate"    // a readiness gate of machine N is not passed, For a while
)

// Random makes a Setup from a seed.
func Random(seed int64) Setup {
	s := random(seed)
	s.drawKind(seed)
	s.drawEtcdOnly(seed)
	s.drawVersions(seed)
	s.drawEager(seed)
	s.drawOverlap(seed)
	s.drawInPlace(seed)
	s.drawExtension(seed)
	s.drawHold(seed)
	s.drawApproval(seed)
	s.drawLimit(seed)
	s.drawGate(seed)
	s.drawRetention(seed)
	s.drawWindows(seed)
	s.drawDecisions(seed, Hide)
	s.drawTidy(seed)
	return s
}

// random makes the Setup of a seed, of the kind KubeadmControlPlane.
func random(seed int64) Setup {
	r := rand.New(rand.NewSource(seed))
	s := Setup{
		Seed:        seed,
		Replicas:    pick(r, 1, 3, 3, 3, 5, 7),
		MaxParallel: pick(r, 0, 0, 0, 1, 2),
		Domains:     [][]string{nil, {"a"}, {"a", "b"}, {"a", "b", "c"}}[r.Intn(4)],
		External:    r.Intn(8) == 0,
		Serial:      r.Intn(12) == 0,
		Workers:     r.Intn(2) == 0,
		Reports:     r.Intn(2) == 0,
		Places:      r.Intn(2) == 0,
		Provable:    r.Intn(2) == 0,
		Fates:       map[int]Fate{},
		Surge:       1,
		Checks:      r.Intn(4) > 0,
		Repair:      plan.RepairLimits{Most: -1, Healthy: pick(r, 10*time.Minute, time.Hour)},
	}
	s.drawTimes(r)
	if r.Intn(4) == 0 {
		s.makeSturdy(r)
		return s
	}
	if s.External {
		s.Replicas = 1 + r.Intn(5)
	}
	s.Repair.Period = pick(r, 0, 0, 10*time.Minute)
	s.Repair.Most = pick(r, -1, -1, 0, 2)
	if r.Intn(4) == 0 {
		s.Surge = 0
	}
	for range r.Intn(3) {
		s.Fates[1+r.Intn(8)] = randomFate(r)
	}
	if r.Intn(3) == 0 {
		s.Bad = map[int]Fate{2: randomFate(r)}
	}
	at := time.Duration(0)
	for range r.Intn(pick(r, 6, 6, 6, 20)) {
		at += time.Duration(r.Intn(240)) * time.Second
		if r.Intn(2) == 0 {
			e := s.operation(r)
			e.At = at
			s.Script = append(s.Script, e)
			continue
		}
		s.Script = append(s.Script, s.event(r, at))
	}
	s.Luck = Luck{Dropped: pick(r, 0, 0, 10, 30), Repeated: pick(r, 0, 0, 20), CutShort: pick(r, 0, 0, 10), Stale: pick(r, 0, 0, 30, 70),
		Mixed: pick(r, 0, 0, 30), Blind: pick(r, 0, 0, 10)}
	return s
}

// event draws one.
func (s *Setup) event(r *rand.Rand, at time.Duration) Event {
	e := Event{At: at, N: 1 + r.Intn(12)}
	e.Kind = pick(r, Scale, Scale, Scale, Change, Change, Change, Change, DeleteMachine, DeleteMachine, ForceDelete, Kill,
		Freeze, Reboot, Outage, Crash, Crash, Restart, Pause, DeleteGroup, Mark, Choose, Unready, Sicken, Gate)
	switch e.Kind {
	case Scale:
		e.N = pick(r, 1, 3, 5, 7, 1, 3, 5, 7, 2, 4)
		if s.External {
			e.N = 1 + r.Intn(6)
		}
	case Change:
		e.N = 1 + r.Intn(3)
	case Crash, Pause, Unready, Sicken, Gate, Freeze, Reboot, Outage:
		e.For = randomSpan(r)
	}
	return e
}

// randomSpan draws how long something lasts: a minute or so, sometimes long.
func randomSpan(r *rand.Rand) time.Duration {
	long := pick(r, 0, 0, 0, 20*time.Minute, 3*time.Hour)
	if long > 0 {
		return time.Duration(r.Int63n(int64(long))).Truncate(time.Second)
	}
	return time.Duration(5+r.Intn(90)) * time.Second
}

// drawTimes draws how long machines take to come and to go.
func (s *Setup) drawTimes(r *rand.Rand) {
	s.Boot = pick(r, 0, 0, 0, 3*time.Minute, 25*time.Minute)
	s.Drain = pick(r, 0, 0, 0, 5*time.Minute, time.Hour)
	s.Leave = pick(r, 0, 0, time.Minute, 2*time.Minute, time.Hour)
	s.NodeFirst = r.Intn(6) == 0
	s.Forwarded = r.Intn(6) == 0
	if r.Intn(12) == 0 {
		s.Remains = map[int]bool{1 + r.Intn(8): true}
	}
}

// randomFate draws one.
func randomFate(r *rand.Rand) Fate {
	return Fate{At: Stage(r.Intn(int(up) + 1)), Dies: r.Intn(2) == 0, Sick: r.Intn(2) == 0}
}

// makeSturdy leaves one failure, in a group that grows and shrinks between three and
// seven, and whose machines are replaced meanwhile.
func (s *Setup) makeSturdy(r *rand.Rand) {
	s.Sturdy, s.External, s.Serial = true, false, false
	s.Replicas = pick(r, 3, 5, 7)
	s.Script = []Event{
		{At: 20 * time.Minute, Kind: Scale, N: pick(r, 3, 5, 7)},
		{At: 20*time.Minute + time.Duration(r.Intn(180))*time.Second, Kind: Kill, N: 1 + r.Intn(7)},
	}
	if r.Intn(3) > 0 {
		s.Script = inOrder(
			Event{At: 20 * time.Minute, Kind: Change, N: 2},
			Event{At: 20*time.Minute + time.Duration(r.Intn(900))*time.Second, Kind: Kill, N: 1 + r.Intn(12)},
			Event{At: 20*time.Minute + time.Duration(r.Intn(900))*time.Second, Kind: pick(r, Scale, Change), N: pick(r, 3, 5, 7)},
		)
	}
	s.Luck = Luck{Dropped: pick(r, 0, 20), Repeated: pick(r, 0, 20), CutShort: pick(r, 0, 10)}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.Intn(len(from))] }

// inOrder sorts a few events by time, keeping the first before others of its moment.
func inOrder(events ...Event) []Event {
	for i := range events {
		for j := i; j > 0 && events[j].At < events[j-1].At; j-- {
			events[j], events[j-1] = events[j-1], events[j]
		}
	}
	return events
}
