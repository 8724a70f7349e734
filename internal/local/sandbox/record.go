package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/process"
	"golang.org/x/sys/unix"
)

// record is what is kept of a machine, in machine.json.
type record struct {
	Spec Spec `json:"spec"`
	// Made: the disk is complete.
	Made bool `json:"made,omitempty"`
	// Stopped: somebody powered the machine off on purpose.
	Stopped bool `json:"stopped,omitempty"`
	// Partitioned: somebody cut the link on purpose.
	Partitioned bool `json:"partitioned,omitempty"`
	// Peers are routes to other machines' pods.
	Peers map[netip.Prefix]netip.Addr `json:"peers,omitempty"`
	// Process is the first process of the last start.
	Process process.ID `json:"process,omitzero"`
	// Problem is why the last start failed.
	Problem string `json:"problem,omitempty"`
}

// save writes the record; the caller holds the machine's lock.
func (f folder) save(r *record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the record of %s: %w", r.Spec.Name, err)
	}
	return atomicfile.Write(f.record(), append(data, '\n'), 0o600)
}

// load reads the record; ErrNotFound when there is none.
func (f folder) load() (*record, error) {
	data, err := os.ReadFile(f.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("machine %s: %w", filepath.Base(string(f)), ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a machine's record: %w", err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.record(), err)
	}
	if err := r.check(filepath.Base(string(f))); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.record(), err)
	}
	return &r, nil
}

// check reports whether a record is one of the machine, with what everything that is done with one relies on.
func (r *record) check(name string) error {
	switch {
	case r.Spec.Name != name:
		return fmt.Errorf("it is damaged: it is about machine %q", r.Spec.Name)
	case !r.Spec.Address.Is4():
		return fmt.Errorf("it is damaged: the address %s is none of IPv4", r.Spec.Address)
	case r.Spec.IPv6Only && !r.Spec.Address6.Is6():
		return errors.New("it is damaged: a machine without IPv4 has no IPv6 address")
	case r.Spec.PodCIDR.IsValid() && !r.Spec.PodCIDR.Addr().Is4():
		return fmt.Errorf("it is damaged: the pod range %s is none of IPv4", r.Spec.PodCIDR)
	}
	return nil
}

// lockRetry is how often a lock that somebody else holds is tried.
const lockRetry = 10 * time.Millisecond

// lockFolder takes the lock of a folder against all processes and goroutines. The lock is the folder itself, so
// that nothing is left when the folder goes.
func lockFolder(ctx context.Context, path string) (unlock func(), err error) {
	for {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		err = waitLock(ctx, f)
		if err == nil && sameFile(f, path) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The folder was removed, and perhaps made again, while the lock was awaited.
	}
}

func waitLock(ctx context.Context, f *os.File) error {
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}

func sameFile(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// with calls do with the machine's record under its lock; ErrNotFound when there is no such machine.
func (h *Host) with(ctx context.Context, name string, do func(folder, *record) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	f := h.folder(name)
	unlock, err := lockFolder(ctx, string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("machine %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return err
	}
	defer unlock()
	r, err := f.load()
	if err != nil {
		return err
	}
	return do(f, r)
}

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkName keeps names that would be paths from being used as such.
func checkName(name string) error {
	if !label.MatchString(name) {
		return fmt.Errorf("machine name %q: must be a DNS label, that is at most 63 lower-case letters, digits and dashes", name)
	}
	return nil
}

// check says what is wrong with a spec.
func (h *Host) check(s Spec) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if !h.isMachineAddress(s.Address) {
		return fmt.Errorf("machine %s: address %s: must be a free address in %s after %s", s.Name, s.Address, h.network, h.Gateway())
	}
	if err := h.checkPodRange(s); err != nil {
		return err
	}
	if err := h.check6(s); err != nil {
		return err
	}
	if s.Resources.MilliCPU < 0 || s.Resources.Memory < 0 {
		return fmt.Errorf("machine %s: resources %+v: must not be negative", s.Name, s.Resources)
	}
	if strings.HasPrefix(h.state+"/", "/usr/") {
		return fmt.Errorf("state folder %s: must not lie below /usr, which machines share", h.state)
	}
	return nil
}

// isMachineAddress reports whether a machine may have the address: the first, the gateway's and the last of the network are taken.
func (h *Host) isMachineAddress(a netip.Addr) bool {
	return h.network.Contains(a) && a != h.network.Addr() && a != h.Gateway() && a != lastAddress(h.network)
}

// checkPodRange says what is wrong with the range of a machine's pods.
func (h *Host) checkPodRange(s Spec) error {
	if s.PodCIDR.IsValid() && (!s.PodCIDR.Addr().Is4() || s.HasIPv4() && s.PodCIDR.Overlaps(h.network)) {
		return fmt.Errorf("machine %s: pod range %s: must be an IPv4 range outside of %s", s.Name, s.PodCIDR, h.network)
	}
	if s.Artifacts.Machine != "" && !s.PodCIDR.IsValid() {
		return fmt.Errorf("machine %s: pod range: must be given for a machine that runs containers", s.Name)
	}
	return nil
}

func lastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(bytes)
}

// names lists the machines that have a folder, sorted.
func (h *Host) names() ([]string, error) {
	entries, err := os.ReadDir(h.machines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && checkName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
