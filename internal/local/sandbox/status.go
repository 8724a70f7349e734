package sandbox

import (
	"encoding/json"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// status reads what the machine says of itself; the zero value when it has said nothing, or nothing that can be read. Others are
// told of it, so that it is made fit to be shown whatever wrote it.
func (f folder) status() guest.Status {
	data, err := readPlain(f.shared(), guest.StatusFile, statusLimit)
	if err != nil {
		return guest.Status{}
	}
	var s guest.Status
	if err := json.Unmarshal(data, &s); err != nil {
		return guest.Status{}
	}
	for _, text := range []*string{&s.Problem, &s.Bootstrap.Phase, &s.Bootstrap.Command, &s.Bootstrap.Output, &s.Bootstrap.Unsupported,
		&s.Bootstrap.Full, &s.Kubelet} {
		*text = plaintext.Shown(*text)
	}
	return s
}

// Get returns one machine, or ErrNotFound.
func (h *Host) Get(name string) (Status, error) {
	if err := checkName(name); err != nil {
		return Status{}, err
	}
	r, err := h.folder(name).load()
	if err != nil {
		return Status{}, err
	}
	return h.statusOf(r)
}

// List returns all machines, sorted by name.
func (h *Host) List() ([]Status, error) {
	records, err := h.records()
	if err != nil {
		return nil, err
	}
	all := make([]Status, len(records))
	for i, r := range records {
		if all[i], err = h.statusOf(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (h *Host) statusOf(r *record) (Status, error) {
	said := h.folder(r.Spec.Name).status()
	s := Status{Spec: r.Spec, State: Dead, Partitioned: r.Partitioned, Problem: plaintext.Shown(r.Problem),
		Bootstrap: Bootstrap(said.Bootstrap), Kubelet: said.Kubelet}
	if r.Stopped {
		s.State, s.Problem = Stopped, ""
	}
	if !r.Process.Alive() {
		if s.Bootstrap.Phase == BootstrapRunning {
			// The machine itself says so as soon as it is powered on again.
			s.Bootstrap.Phase = BootstrapFailed
			s.Bootstrap.Output = guest.Interrupted + s.Bootstrap.Output
		}
		return s, nil
	}
	s.State, s.PID, s.Ready = Running, r.Process.PID, said.Ready
	if s.Problem == "" {
		s.Problem = said.Problem
	}
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return s, err
	}
	frozen, err := groups.frozen(r.Spec.Name)
	if frozen {
		s.State, s.Ready = Paused, false
	}
	return s, err
}
