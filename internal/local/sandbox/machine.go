package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/process"
	"github.com/vishvananda/netlink"
)

// Ensure makes the machine and has it running, unless it was stopped on purpose. It may be repeated, also after
// the host was booted. Where the host has not got the resources of a machine that is to be made, the error is a
// *NotFreeError, and nothing is made. It does not wait until the machine is Ready: see Changed.
func (h *Host) Ensure(ctx context.Context, spec Spec) error {
	if err := h.check(spec); err != nil {
		return err
	}
	f, err := h.claim(ctx, spec)
	if err != nil {
		return err
	}
	return h.with(ctx, filepath.Base(string(f)), func(f folder, r *record) error {
		if r.Spec.Address != spec.Address || r.Spec.PodCIDR != spec.PodCIDR {
			return fmt.Errorf("machine %s: has address %s and pod range %s, which cannot be changed to %s and %s",
				spec.Name, r.Spec.Address, r.Spec.PodCIDR, spec.Address, spec.PodCIDR)
		}
		if err := f.own(r, spec.Owner); err != nil {
			return err
		}
		if r.Stopped {
			return nil
		}
		return h.run(ctx, f, r)
	})
}

// own makes sure that a machine is its owner's, and records the owner of one of which it is not on record.
func (f folder) own(r *record, owner string) error {
	switch r.Spec.Owner {
	case owner:
		return nil
	case "":
		r.Spec.Owner = owner
		return f.save(r)
	}
	return fmt.Errorf("machine %s: was made for the object with UID %s, not for %q", r.Spec.Name, r.Spec.Owner, owner)
}

// claim makes the machine's folder and record, if they are not there. All claims of an environment follow one
// another, so that no two machines get the same address.
func (h *Host) claim(ctx context.Context, s Spec) (folder, error) {
	f := h.folder(s.Name)
	if _, err := f.load(); !errors.Is(err, ErrNotFound) {
		return f, err
	}
	if err := h.EnsureNetwork(ctx); err != nil {
		return "", err
	}
	unlock, err := lockFolder(ctx, h.machines())
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := f.load(); !errors.Is(err, ErrNotFound) {
		return f, err
	}
	others, err := h.records()
	if err != nil {
		return "", err
	}
	if err := h.checkBeside(s, others); err != nil {
		return "", fmt.Errorf("machine %s: %w", s.Name, err)
	}
	return f, f.create(s)
}

// create makes the folders and the record of a machine.
func (f folder) create(s Spec) error {
	for _, dir := range []string{string(f), f.logs(), f.shared()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the machine's folder: %w", err)
		}
	}
	return f.save(&record{Spec: s})
}

// checkBeside says why the host cannot have a machine beside the others: one of them has its address, or too little is left.
func (h *Host) checkBeside(s Spec, others []*record) error {
	for _, o := range others {
		if o.Spec.Address == s.Address {
			return fmt.Errorf("address %s belongs to machine %s", s.Address, o.Spec.Name)
		}
	}
	return h.room(s.Resources, others)
}

// records reads all machines' records, sorted by name. A folder without one belongs to a machine that is being
// made or deleted.
func (h *Host) records() ([]*record, error) {
	names, err := h.names()
	if err != nil {
		return nil, err
	}
	var all []*record
	for _, name := range names {
		r, err := h.folder(name).load()
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// run has the machine running; the caller holds its lock. Why it cannot is kept in the record.
func (h *Host) run(ctx context.Context, f folder, r *record) error {
	if r.Process.Alive() {
		return nil
	}
	err := h.powerOn(ctx, f, r)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if r.Problem == problem {
		return err
	}
	r.Problem = problem
	return errors.Join(err, f.save(r))
}

// ensureDisk makes the machine's disk unless it is complete.
func (h *Host) ensureDisk(ctx context.Context, f folder, r *record) error {
	if r.Made {
		return nil
	}
	if err := h.makeDisk(ctx, f, r.Spec); err != nil {
		return err
	}
	r.Made = true
	return f.save(r)
}

func (h *Host) powerOn(ctx context.Context, f folder, r *record) error {
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return err
	}
	// A daemon that died between two steps may have left something of an earlier start.
	if err := groups.kill(ctx, r.Spec.Name); err != nil {
		return err
	}
	if err := h.ensureDisk(ctx, f, r); err != nil {
		return err
	}
	if err := h.handOver(f, r, groups); err != nil {
		return err
	}
	l, err := h.launch(ctx, f)
	if err != nil {
		return err
	}
	defer l.close()
	if err := h.finish(ctx, f, r, l); err != nil {
		return errors.Join(err, groups.kill(ctx, r.Spec.Name))
	}
	return nil
}

// handOver writes what the machine's first process reads.
func (h *Host) handOver(f folder, r *record, groups *cgroups) error {
	mine, err := groups.make(r.Spec.Name, r.Spec.Resources)
	if err != nil {
		return err
	}
	if err := f.refresh(h.Gateway().String()); err != nil {
		return err
	}
	boot, err := json.Marshal(h.bootOf(f, r, mine))
	if err != nil {
		return fmt.Errorf("writing what the machine is told: %w", err)
	}
	if err := atomicfile.Write(f.boot(), boot, 0o600); err != nil {
		return err
	}
	// What was true before the power went is not true now.
	s := f.status()
	if !s.Ready && s.Problem == "" {
		return nil
	}
	s.Ready, s.Problem = false, ""
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the machine's status: %w", err)
	}
	return atomicfile.Write(f.in(guest.StatusFile), data, 0o600)
}

// finish records the process before it is released, so that every running machine is recorded.
func (h *Host) finish(ctx context.Context, f folder, r *record, l *launched) error {
	r.Process = l.ID
	if err := f.save(r); err != nil {
		return err
	}
	if err := h.connect(ctx, r, l.PID); err != nil {
		return err
	}
	return l.release()
}

// Bootstrap hands bootstrap data to the machine, which executes it once in its life. The first data wins; the
// call returns as soon as the data is stored. How it goes on is in Status.
func (h *Host) Bootstrap(ctx context.Context, name string, userData []byte) error {
	return h.with(ctx, name, func(f folder, _ *record) error {
		path := f.in(guest.UserDataFile)
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return atomicfile.Write(path, userData, 0o600)
		}
		if err != nil {
			return fmt.Errorf("looking for bootstrap data: %w", err)
		}
		return nil
	})
}

// Stop powers a machine off, as pulling the plug does. Its disk stays.
func (h *Host) Stop(ctx context.Context, name string) error {
	return h.with(ctx, name, func(f folder, r *record) error {
		// Recorded first: no process may start it again because it looks dead.
		r.Stopped = true
		if err := f.save(r); err != nil {
			return err
		}
		return h.powerOff(ctx, f, r)
	})
}

func (h *Host) powerOff(ctx context.Context, f folder, r *record) error {
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return err
	}
	// The end of a pid namespace's first process is the end of all: the kernel kills the others before it is gone.
	if err := groups.kill(ctx, r.Spec.Name); err != nil {
		return err
	}
	if err := r.Process.Wait(ctx); err != nil {
		return err
	}
	if err := h.disconnect(r.Spec.Address); err != nil {
		return err
	}
	if err := groups.remove(ctx, r.Spec.Name); err != nil {
		return err
	}
	r.Process, r.Problem = process.ID{}, ""
	return f.save(r)
}

// Start powers a machine on again. Starting a running one does nothing.
func (h *Host) Start(ctx context.Context, name string) error {
	return h.with(ctx, name, func(f folder, r *record) error {
		if r.Stopped {
			r.Stopped = false
			if err := f.save(r); err != nil {
				return err
			}
		}
		return h.run(ctx, f, r)
	})
}

// Pause freezes all processes of a machine.
func (h *Host) Pause(ctx context.Context, name string) error { return h.freeze(ctx, name, true) }

// Resume lets a paused machine go on.
func (h *Host) Resume(ctx context.Context, name string) error { return h.freeze(ctx, name, false) }

func (h *Host) freeze(ctx context.Context, name string, frozen bool) error {
	return h.with(ctx, name, func(f folder, r *record) error {
		if !r.Process.Alive() {
			return fmt.Errorf("machine %s does not run", name)
		}
		groups, err := hostCgroups(h.ID())
		if err != nil {
			return err
		}
		if err := groups.freeze(ctx, name, frozen); err != nil {
			return err
		}
		// Those who watch see the folder, not the kernel.
		return f.save(r)
	})
}

// Partition cuts a machine's link. It stays cut when the machine is started again.
func (h *Host) Partition(ctx context.Context, name string) error { return h.cut(ctx, name, true) }

// Heal mends a cut link.
func (h *Host) Heal(ctx context.Context, name string) error { return h.cut(ctx, name, false) }

func (h *Host) cut(ctx context.Context, name string, partitioned bool) error {
	return h.with(ctx, name, func(f folder, r *record) error {
		r.Partitioned = partitioned
		if err := f.save(r); err != nil {
			return err
		}
		if !r.Process.Alive() {
			return nil
		}
		return h.setLink(r)
	})
}

// SetPeers makes the machine's routes to the pods of other machines exactly these: pod range to machine address.
// A machine that does not run gets them when it starts.
func (h *Host) SetPeers(ctx context.Context, name string, peers map[netip.Prefix]netip.Addr) error {
	for to, via := range peers {
		if !to.IsValid() || to.Addr().Is4() != via.Is4() || !h.network.Contains(via) && !Network6(h.network).Contains(via) {
			return fmt.Errorf("machine %s: peer %s via %s: must be a range via an address of the same family in %s or %s", name, to, via, h.network,
				Network6(h.network))
		}
	}
	return h.with(ctx, name, func(f folder, r *record) error {
		if !maps.Equal(r.Peers, peers) {
			r.Peers = maps.Clone(peers)
			if err := f.save(r); err != nil {
				return err
			}
		}
		if !r.Process.Alive() {
			return nil
		}
		return inNetwork(r.Process.PID, func(n *netlink.Handle) error { return setPeers(n, r) })
	})
}

// Delete ends a machine. Nothing of it is left: process, mount, namespace, cgroup, link or file. Deleting what is
// not there is no error.
func (h *Host) Delete(ctx context.Context, name string) error {
	err := h.with(ctx, name, func(f folder, r *record) error {
		if err := h.powerOff(ctx, f, r); err != nil {
			return err
		}
		if err := removeAll(string(f)); err != nil {
			return fmt.Errorf("removing machine %s: %w", name, err)
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// removeAll removes a machine's folder, its record last: a folder with a record is found again and removed by the next try.
func removeAll(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return boolOrder(a.Name() == "machine.json") - boolOrder(b.Name() == "machine.json")
	})
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
