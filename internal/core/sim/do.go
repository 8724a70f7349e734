package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Do carries out a decision, or some of it, or does it twice, as luck has it. An
// error is what the controller would log before it looks again.
func (w *World) Do(d plan.Decision) error {
	if d.Step.Verb == plan.Wait || d.Step.Verb == plan.Nothing {
		return nil
	}
	w.looks = nil
	switch {
	case w.chance(w.setup.Luck.Dropped):
		return fmt.Errorf("%s: the connection was lost", d.Step.Verb)
	case w.chance(w.setup.Luck.CutShort):
		w.cutShort(d.Step)
		return fmt.Errorf("%s: the controller died", d.Step.Verb)
	case w.chance(w.setup.Luck.Repeated):
		if err := w.act(d.Step); err != nil {
			return err
		}
	}
	return w.act(d.Step)
}

// cutShort does a part of a step, after which the controller starts again.
func (w *World) cutShort(s plan.Step) {
	if s.Verb == plan.Create {
		w.last = max(w.last, s.Number)
		if w.rand.Intn(2) == 0 && w.begun != s.Machine {
			w.begun, w.begunSpec, w.begunHeld = s.Machine, w.saw, s.Hold
		}
	}
	if s.Repair && w.rand.Intn(2) == 0 {
		w.remember(s)
	}
	if h := w.named(s.Machine); s.Verb == plan.GiveUp && h != nil && w.rand.Intn(2) == 0 {
		h.hook = h.hook && h.deleting
	}
	if s.Counts && w.rand.Intn(2) == 0 {
		_ = w.note(s) // who could not dies as well
	}
	w.restart()
}

// act carries out a step. Every step may be repeated.
func (w *World) act(s plan.Step) error {
	if err := w.askAnew(s); err != nil {
		return err
	}
	if err := w.note(s); err != nil {
		return err
	}
	switch s.Verb {
	case plan.Write:
		w.write(s)
	case plan.Create:
		return w.create(s)
	case plan.Delete, plan.Adopt, plan.ReleaseHook, plan.StartBootstrap:
		onHost(w, s, w.actOn)
	case plan.UpdateInPlace, plan.RecordUpdate, plan.DropUpdate:
		onHost(w, s, w.actOnUpdate)
	case plan.PromoteMember:
		w.promote(w.memberByID(s.Member))
	case plan.MoveLeader, plan.AddPlaceholder, plan.RemoveMember:
		return w.reconfigure(s)
	case plan.EnableDowngrade, plan.CancelDowngrade, plan.Compact, plan.Defragment, plan.Disarm:
		return spacious{w}.maintain(s)
	case plan.BeginRecovery, plan.GiveUp, plan.EndRecovery, plan.BeginHibernation, plan.Hibernate, plan.Wake, plan.EndHibernation:
		return recovering{w}.do(s)
	case plan.RequestBackup:
		w.archive.noted.Required = w.now.Truncate(time.Second)
	case plan.DropChoice:
		decider{w}.drop(s.Choice)
	case plan.Finish:
		return finish(w)
	default:
		return fmt.Errorf("no such step: %s", s)
	}
	return nil
}

// finish lets the group go, when no machine of it is left.
func finish(w *World) error {
	if slices.ContainsFunc(w.hosts, w.isOurs) {
		return errors.New("machines are left, as the API server says")
	}
	w.finished = true
	return nil
}

// onHost carries out a step about a machine, if it is there.
func onHost(w *World, s plan.Step, do func(*host, plan.Step)) {
	if h := w.named(s.Machine); h != nil {
		do(h, s)
	}
}

// actOn carries out a step that is about a machine which is there.
func (w *World) actOn(h *host, s plan.Step) {
	switch {
	case s.Verb == plan.Adopt:
		h.disowned = false
	case s.Verb == plan.ReleaseHook:
		w.release(h)
	case s.Verb == plan.StartBootstrap:
		w.letBegin(h)
	case h.disowned && w.deleting: // the read before a machine goes with its group
	case !h.deleting:
		w.remember(s)
		w.takePlace(s, h)
		w.remove(h)
	}
}

// reconfigure asks etcd for another leader, for a placeholder, or for one member less.
func (w *World) reconfigure(s plan.Step) error {
	m := w.memberByID(s.Member)
	switch {
	case s.Verb == plan.AddPlaceholder:
		return w.addPlaceholder()
	case s.Verb == plan.RemoveMember && m == nil:
		return nil
	case s.Verb == plan.RemoveMember:
		if err := w.mayRemove(m); err != nil {
			return err
		}
		w.take(m)
	default:
		if err := w.mayLead(m); err != nil {
			return err
		}
		if m != w.leader {
			w.leader = m
			w.moves++
			w.space.moved = w.now
		}
	}
	return nil
}

// create makes a machine, unless it is there. What was begun of it stays as it was begun: one that was held back does not initialise the
// cluster. Of a group that is being deleted the API server says so, whatever the controller saw.
func (w *World) create(s plan.Step) error {
	if w.deleting {
		return errors.New("the group is being deleted, as the API server says")
	}
	spec, held := w.saw, s.Hold
	if w.begun == s.Machine {
		spec, held = w.begunSpec, w.begunHeld
	}
	w.last, w.begun = max(w.last, s.Number), ""
	if w.named(s.Machine) != nil {
		return nil
	}
	w.limits.surged = w.count(w.isStaying) >= w.replicas
	h := &host{name: s.Machine, domain: s.Domain, number: s.Number, first: s.Init && !held, held: held, created: w.now, spec: spec,
		minor: w.setup.minor(spec), hook: true}
	if s.Seed {
		if err := (recovering{w}).seeds(h); err != nil {
			return err
		}
	}
	w.inherit(h)
	w.hosts = append(w.hosts, h)
	w.enter(h, booting)
	return nil
}
