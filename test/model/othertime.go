package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The management cluster is backed up at one moment, and restored from that backup at a later one, once on each path. Its objects are of
// the time of the backup, and the cluster is of now. Machines that came since then have no object and are unknown; machines that went since
// then have one again. What was noted since then is not noted any more: that a member was removed, that a machine was given up or is
// deleted, the last number of a name, the wanted spec.

// past is what a state has of another time. The zero value: nothing was backed up yet. States hold the number of theirs in times.
type past struct {
	phase     phase
	last      uint8       // the highest number of a name that is noted
	begun     uint8       // the number of a machine of which something is left that was made before its Machine; 0: none
	repairing bool        // it is noted that a machine was given up and not replaced
	nums      [most]uint8 // the numbers in the names of hosts, by their index
	was       [most]flags // what the backup has of hosts, by their index
	unnoted   uint8       // hosts whose member was removed, which is not noted; bits, by their index
	strays    [2]uint8    // the numbers in the names of members whose host is gone; 0: none
	backup    backup
	choice    choice
}

type phase uint8

const (
	before    phase = iota
	backed          // there is a backup
	restoring       // it is being restored
	restored        // it was restored, and something of that is left
	spent           // nothing is left of it
)

// backup is what a backup has beside its machines. A machine is in it whose number is not above last.
type backup struct {
	last, begun        uint8
	repairing, changed bool
	gone               [4]remnant // its machines whose host is gone
}

// remnant is what a backup has of a machine whose host is gone.
type remnant struct {
	num uint8
	was flags
}

// inObjects are the flags of a host that are in its objects; that its member was removed is noted there.
const inObjects = deleting | due | released | forced | marked | removed

// highestNumber is the highest number in a name that is explored.
const highestNumber = 15

// times are all that a group's states have of other times. A state holds a number, so that those of other groups stay small.
type times struct {
	index map[past]uint32
	all   []past
}

func newTimes() *times { return &times{index: map[past]uint32{{}: 0}, all: []past{{}}} }

// keep returns the number of what a state has of another time.
func (t *times) keep(p past) uint32 {
	n, known := t.index[p]
	if !known {
		n = uint32(len(t.all))
		t.index[p] = n
		t.all = append(t.all, p)
	}
	return n
}

// inPast is a group whose management cluster is restored.
type inPast struct{ *group }

// of returns what a state has of another time, and whether there is anything.
func (g inPast) of(s *state) (past, bool) {
	if s.past == 0 {
		return past{}, false
	}
	p := g.times.all[s.past]
	return p, p.phase == backed || p.phase == restoring || p.phase == restored
}

// num is the number in the name of a host. Without another time hosts are numbered as they stand: all that matters of a name is which hosts
// have it.
func (g inPast) num(s *state, i int) uint8 {
	if p, is := g.of(s); is {
		return p.nums[i]
	}
	return uint8(i) + 1
}

func (g inPast) name(s *state, i int) string { return nameOf(g.num(s, i)) }

func nameOf(num uint8) string { return fmt.Sprintf("cp-%d", num) }

// find returns 1 + the index of the host with a number; 0: there is none.
func (g inPast) find(s *state, num uint8) int8 {
	for i := range s.n() {
		if g.num(s, i) == num {
			return int8(i) + 1
		}
	}
	return 0
}

// isVanished: nothing is left of a machine, and it is known again.
func (h *host) isVanished() bool { return h.stage == up && h.has(stuck) }

// known counts the hosts that have a Machine.
func (s *state) known() int { return s.count(func(h *host) bool { return !h.has(hidden) }) }

// parity: the spec is another one than at first.
func (s *state) parity() bool { return s.marks&(changed|reverted) == changed }

// moves are what happens to the management cluster, and what people do who see that it was restored.
func (g inPast) moves(all *moves, s state) {
	if !g.restores {
		return
	}
	if s.past == 0 && s.marks&(initialised|forgotten) == initialised {
		all.add(g.group, false, g.backUp(s), "the management cluster is backed up", 0)
	}
	p, is := g.of(&s)
	if is && p.phase == backed {
		if to, differs := g.restore(s); differs {
			all.add(g.group, false, to, "the management cluster is restored from its backup", 0)
		}
	}
	if is && p.phase == restored && s.pending.verb == nothing {
		g.people(all, s, p)
	}
}

// backUp makes a backup. A machine that is being made is in it in part, and so is the deletion of a broken one.
func (g inPast) backUp(s state) state {
	n := uint8(s.n())
	p := past{phase: backed, last: n, backup: backup{last: n, changed: s.parity(), repairing: g.misses(&s)}}
	s.each(func(i int, h *host) { p.nums[i], p.was[i] = uint8(i)+1, h.is&inObjects })
	if s.pending.verb == create {
		s.pending.num, p.backup.begun = n+1, n+1
	}
	p.repairing = p.backup.repairing
	s.past = g.times.keep(p)
	return s
}

// misses: a machine is given up, and no other is there in its place.
func (g inPast) misses(s *state) bool {
	staying := s.count(func(h *host) bool { return !h.has(deleting) })
	givenUp := s.count(func(h *host) bool { return h.has(deleting) && h.has(marked) })
	return s.pending.repair || givenUp > 0 && staying < g.replicas
}

// restore brings the objects of the backup back. It reports whether anything is another thing then. Who was about to do something is gone.
func (g inPast) restore(s state) (to state, differs bool) {
	p, _ := g.of(&s)
	to = s
	to.pending, to.age = step{}, 0
	if s.parity() != p.backup.changed {
		to = g.change(to)
		differs = true
	}
	to.marks &^= changed | reverted
	if p.backup.changed {
		to.marks |= changed
	}
	differs = differs || p.repairing != p.backup.repairing || p.backup.begun != 0
	s.each(func(i int, h *host) {
		differs = differs || p.nums[i] > p.backup.last || h.is&inObjects != p.was[i]
	})
	gone := p.backup.gone
	p.phase, p.last, p.begun, p.repairing = restoring, p.backup.last, p.backup.begun, p.backup.repairing
	to.each(func(i int, h *host) {
		if p.nums[i] <= p.last {
			isRemoved := h.has(removed)
			h.is = h.is&^inObjects | p.was[i]
			if isRemoved && !h.has(removed) {
				h.set(removed)
				p.unnoted |= 1 << i
			}
		}
	})
	p.was, p.backup = [most]flags{}, backup{}
	to.past = g.times.keep(p)
	g.unknow(&to, p)
	for _, r := range gone {
		if r.num != 0 {
			differs = true
			g.recall(&to, r)
		}
	}
	p, _ = g.of(&to)
	p.phase = restored
	to.past = g.times.keep(p)
	return to, differs
}

// unknow takes the objects of the machines away that came after the backup. One that left no trace in the cluster goes at once: nothing
// shows that its name is taken, and infrastructure refuses the name, which is not explored.
func (g inPast) unknow(s *state, p past) {
	for i := s.n() - 1; i >= 0; i-- {
		h := &s.hosts[i]
		switch {
		case p.nums[i] <= p.last:
		case g.tellsOf(h):
			h.clear(marked)
			if !h.has(released) {
				h.clear(deleting | due)
			}
			h.set(hidden)
		default:
			h.set(forced)
			g.drop(s, i)
		}
	}
}

// tellsOf: a Node or a member has the name of a host.
func (g inPast) tellsOf(h *host) bool {
	return h.stage >= settling && !g.etcdOnly || g.member(h) && h.stage >= syncing
}

// recall brings the objects of a machine back whose host is gone.
func (g inPast) recall(s *state, r remnant) {
	n := s.n()
	if n == most {
		return
	}
	p, _ := g.of(s)
	at := 0
	for at < n && p.nums[at] < r.num {
		at++
	}
	copy(s.hosts[at+1:], s.hosts[at:most-1])
	copy(p.nums[at+1:], p.nums[at:most-1])
	low := p.unnoted & (1<<at - 1)
	p.unnoted = low | (p.unnoted&^low)<<1
	if !r.was.has(removed) {
		p.unnoted |= 1 << at
	}
	s.hosts[at] = host{stage: up, is: r.was | dark | stuck | removed | late | old}
	p.nums[at] = r.num
	if int(s.leader) > at {
		s.leader++
	}
	s.past = g.times.keep(p)
}

func (f flags) has(is flags) bool { return f&is != 0 }

// shift forgets a host that is gone, unless the backup has its machine, and keeps the name of its member.
func (g inPast) shift(s *state, gone int, h *host, member int) {
	p, is := g.of(s)
	if !is {
		return
	}
	num := p.nums[gone]
	if p.phase == backed && num <= p.backup.last {
		at := slices.Index(p.backup.gone[:], remnant{})
		if at < 0 { // a backup that old is not explored
			s.past, s.pending.num = g.times.keep(past{phase: spent}), 0
			return
		}
		parity := flags(0)
		if h.has(outdated) == (s.parity() == p.backup.changed) {
			parity = outdated
		}
		p.backup.gone[at] = remnant{num, p.was[gone] | parity}
	}
	if member >= 0 && h.stage >= syncing {
		p.strays[member] = num
	}
	copy(p.nums[gone:], p.nums[gone+1:])
	copy(p.was[gone:], p.was[gone+1:])
	p.nums[most-1], p.was[most-1] = 0, 0
	low := p.unnoted & (1<<gone - 1)
	p.unnoted = low | p.unnoted>>(gone+1)<<gone
	s.past = g.times.keep(p)
}

// settle forgets what is left of nothing any more. When nothing is left of another time, hosts are numbered as they stand.
func (g inPast) settle(s *state) {
	p, is := g.of(s)
	if !is {
		return
	}
	for k := range s.strays {
		if s.strays[k] == 0 {
			p.strays[k] = 0
		}
	}
	s.each(func(i int, h *host) {
		if !h.has(removed) {
			p.unnoted &^= 1 << i
		}
	})
	left := s.count(func(h *host) bool { return h.has(hidden) || h.isVanished() }) > 0 ||
		p.unnoted != 0 || p.choice != choice{} || p.repairing || p.begun != 0 || s.pending.verb != nothing
	if p.phase == restored && !left {
		p = past{phase: spent}
	}
	if s.pending.verb == nothing && p.phase != restoring {
		g.renumber(s, &p)
	}
	s.past = g.times.keep(p)
}

// renumber closes the gaps between the numbers in names, as if what is gone had never been. Of a name it matters only who has it, and
// whether it is above the last that is noted. Those that a backup has stay as they are until it is restored.
func (g inPast) renumber(s *state, p *past) {
	used := uint16(1)<<p.begun | 1<<p.strays[0] | 1<<p.strays[1]
	for i := range s.n() {
		used |= 1 << p.nums[i]
	}
	var to [highestNumber + 1]uint8
	next, last := p.backup.last, p.backup.last
	for n := uint8(1); n <= highestNumber; n++ {
		switch {
		case n <= p.backup.last:
			to[n] = n
		case used&(1<<n) != 0:
			next++
			to[n] = next
		}
		if n <= p.last {
			last = max(last, to[n])
		}
	}
	p.last, p.begun = last, to[p.begun]
	for i := range p.nums {
		p.nums[i] = to[p.nums[i]]
	}
	for k := range p.strays {
		p.strays[k] = to[p.strays[k]]
	}
	p.choice = p.choice.renumbered(used, to)
}

// place finds the host that a step is about, by the number in its name. A machine that is not known has no step of its own.
func (g inPast) place(s *state, t *step, of plan.Step) {
	t.repair = of.Repair && t.verb == remove
	if _, is := g.of(s); !is {
		return
	}
	switch {
	case t.verb == create && of.Number > highestNumber:
		*t = step{verb: unheard}
	case t.verb == create:
		t.num = uint8(of.Number)
	case t.on > 0:
		num := t.on
		if t.on = g.find(s, uint8(num)); t.on == 0 || of.Machine == nameOf(uint8(num)) && s.hosts[t.on-1].has(hidden) {
			*t = step{verb: unheard}
		}
	}
}

// note writes down what a step says of names and of a machine that is given up, and what a person decided who was heard.
func (g inPast) note(s *state, t step) {
	p, is := g.of(s)
	if !is {
		return
	}
	switch {
	case t.verb == create:
		if g.find(s, t.num) == 0 {
			p.nums[s.n()-1] = t.num
		}
		p.last, p.begun, p.repairing = max(p.last, t.num), 0, false
	case t.repair:
		p.repairing = true
	case t.verb == dropChoice:
		p.choice = choice{}
	}
	s.past = g.times.keep(p)
}

// noteNumber notes the highest number in a name that was seen, before a step is taken.
func (g inPast) noteNumber(s *state, o plan.Observed) {
	if p, is := g.of(s); is {
		p.last = max(p.last, uint8(plan.HighestNumber(o)))
		s.past = g.times.keep(p)
	}
}

// add adds what is seen of another time.
func (g inPast) add(s *state, o *plan.Observed) {
	p, is := g.of(s)
	if !is {
		return
	}
	o.Group.LastMachine, o.Group.Repairing = int(p.last), p.repairing
	if p.begun != 0 && !slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Name == nameOf(p.begun) }) {
		o.Group.PartialCreate = nameOf(p.begun)
	}
	s.each(func(i int, h *host) {
		if h.has(hidden) && !g.etcdOnly && h.stage >= settling {
			o.Cluster.Names = append(o.Cluster.Names, g.name(s, i))
		}
	})
	slices.Sort(o.Cluster.Names)
	for k := range o.Etcd.Members {
		g.addStray(s, p, &o.Etcd.Members[k])
	}
}

// addStray names a member whose host is gone, and the machine of it that is known again.
func (g inPast) addStray(s *state, p past, e *plan.Member) {
	if e.ID[0] != 's' || p.strays[e.ID[1]-'0'] == 0 {
		return
	}
	num := p.strays[e.ID[1]-'0']
	e.Name = nameOf(num)
	if at := g.find(s, num); at > 0 && s.hosts[at-1].isVanished() {
		e.Machine = e.Name
	}
}

// tell makes what is seen of a machine what its objects say.
func (g inPast) tell(s *state, i int, m *plan.Machine) {
	p, is := g.of(s)
	if !is {
		return
	}
	m.Name = nameOf(p.nums[i])
	if m.Host != "" {
		m.Host = m.Name
	}
	h := &s.hosts[i]
	if p.unnoted&(1<<i) != 0 && h.has(removed) {
		m.CannotJoin = ""
	}
	if !h.isVanished() {
		return
	}
	m.Ready, m.UpSince = false, time.Time{}
	for k := range m.Components {
		m.Components[k].Health = plan.Unknown
	}
	if !g.silent {
		m.Gone, m.CannotJoin = true, "nothing is left of it"
	}
}

// create makes a machine, or finishes one that was begun and whose host is there.
func (g inPast) create(s *state, t step) {
	p, is := g.of(s)
	at := g.find(s, t.num)
	if !is || at == 0 {
		s.hosts[s.n()] = fresh(t)
		return
	}
	h := &s.hosts[at-1]
	h.clear(hidden)
	if h.has(removed) {
		p.unnoted |= 1 << (at - 1)
	}
	s.past = g.times.keep(p)
}

// describe writes what a state has of another time: the numbers in names, and what is unknown or known again.
func (g inPast) describe(s *state) string {
	p, is := g.of(s)
	if !is {
		return ""
	}
	var names []string
	s.each(func(i int, h *host) {
		text := nameOf(p.nums[i])
		if h.has(hidden) {
			text += " unknown"
		}
		if h.isVanished() {
			text += " vanished"
		}
		if p.unnoted&(1<<i) != 0 {
			text += " unnoted"
		}
		names = append(names, text)
	})
	text := fmt.Sprintf(" {%s; last %d", strings.Join(names, ", "), p.last)
	if p.phase == backed {
		text += fmt.Sprintf("; backup of %d, %d gone", p.backup.last, len(p.backup.gone)-count(p.backup.gone[:], remnant{}))
	}
	if p.begun != 0 {
		text += "; begun " + nameOf(p.begun)
	}
	if p.choice != (choice{}) {
		text += fmt.Sprintf("; decided %s %d for %d voters", p.choice.kind, p.choice.num, bits.OnesCount16(p.choice.voters))
	}
	return text + "}"
}

// count counts those of a list that are one thing.
func count[T comparable](list []T, one T) int {
	n := 0
	for _, x := range list {
		if x == one {
			n++
		}
	}
	return n
}
