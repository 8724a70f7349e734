package sim

import (
	"fmt"
	"time"
)

// What the user wants machines to be is a number here: a change of the spec is
// another number, and an earlier one is a revert. Machines are made of the spec that
// the controller saw, and stay of it.

// change wants machines of another spec from now on.
func (w *World) change(spec int) {
	w.tell("machines of spec %d are wanted", spec)
	w.calm, w.moves = w.calm && spec != w.spec && w.AsWanted() == nil, 0
	w.spec = spec
	w.follow()
	for _, h := range w.hosts {
		h.dropped = h.dropped || h.spec != spec
	}
}

// correct is what a person does at last about a spec of which no machine comes up.
func (w *World) correct() {
	good := 1
	for w.isBad(good) {
		good++
	}
	w.change(good)
}

// isBad: no machine of that spec comes up, or to what it should be.
func (w *World) isBad(spec int) bool {
	_, bad := w.setup.Bad[spec]
	return bad
}

// fate is what happens to a host as it comes up.
func (w *World) fate(h *host) (Fate, bool) {
	if fate, bad := w.setup.Bad[h.spec]; bad {
		return fate, true
	}
	fate, ok := w.setup.Fates[h.number]
	return fate, ok
}

// outdated says in what a host is not of the wanted spec.
func (w *World) outdated(h *host) string { return differs("spec", h.spec, w.spec) }

func differs(what string, is, wanted int) string {
	if is == wanted {
		return ""
	}
	return fmt.Sprintf("%s %d, %d wanted", what, is, wanted)
}

// begin is where kubeadm begins on a host: one that joins reads kubeadm's own
// configuration, and cannot join a cluster that is of another spec than itself.
func (w *World) begin(h *host) bool {
	if h.first || h.spec == w.kubeadm || w.setup.NodeOnly || w.setup.EtcdOnly {
		return true
	}
	if h.spec == w.spec && !h.dropped && !w.lasts(Invalid, 0) { // of an invalid spec no configuration can be written
		w.blame("%s is of spec %d, and joins with kubeadm's configuration for %d", h.name, h.spec, w.kubeadm)
	}
	h.failed = fmt.Sprintf("kubeadm cannot join a cluster of spec %d", w.kubeadm)
	h.due = time.Time{}
	w.upset()
	w.tell("%s: %s", h.name, h.failed)
	return false
}

// initialise makes the cluster what its first host is.
func (w *World) initialise(h *host) {
	if !w.initialised && !h.deleting {
		w.initialised, w.kubeadm, w.addons = true, h.spec, h.spec
		w.follow()
	}
}

// upset: something went wrong or was asked for, so that a rollout is not undisturbed any more.
func (w *World) upset() { w.calm = false }

// upsetBy: the same, unless the user's own spec is to blame, or the host goes anyway.
func (w *World) upsetBy(h *host) {
	if !w.isBad(h.spec) && h.gone.IsZero() {
		w.upset()
	}
}
