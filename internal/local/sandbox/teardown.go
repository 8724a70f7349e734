package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Teardown ends all machines of the environment and removes bridge and cgroups, also when its files are
// half gone: what carries the environment's id is found and removed.
func (h *Host) Teardown(ctx context.Context) error {
	if err := h.removeMachines(ctx); err != nil {
		return err
	}
	if err := h.removeLinks(); err != nil {
		return err
	}
	if err := h.lowerLimits(); err != nil {
		return err
	}
	if err := os.Remove(h.machines()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the folder of machines: %w", err)
	}
	return nil
}

// removeMachines ends and erases all machines, and removes the environment's cgroups.
func (h *Host) removeMachines(ctx context.Context) error {
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return err
	}
	// Machines whose folder is gone live on in their cgroups.
	if err := groups.kill(ctx, ""); err != nil {
		return err
	}
	names, err := h.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := h.erase(ctx, name); err != nil {
			return err
		}
	}
	return groups.remove(ctx, "")
}

// erase deletes a machine, also one whose record is lost or cannot be read.
func (h *Host) erase(ctx context.Context, name string) error {
	f := h.folder(name)
	if _, err := f.load(); err == nil {
		return h.Delete(ctx, name)
	}
	unlock, err := lockFolder(ctx, string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.RemoveAll(string(f)); err != nil {
		return fmt.Errorf("removing machine %s: %w", name, err)
	}
	return nil
}

// removeLinks removes the bridge and every link that carries the environment's id.
func (h *Host) removeLinks() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing the host's links: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		port := strings.HasPrefix(name, "q"+h.ID()) && link.Type() == "veth"
		if name != h.BridgeName() && !port {
			continue
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("removing the link %s: %w", name, err)
		}
	}
	for _, f := range firewalls {
		forget(f, h.BridgeName())
	}
	return nil
}

// Traces lists what is on the host of the environment, outside of its state folder: links and cgroups. Empty
// after Teardown.
func (h *Host) Traces() ([]string, error) {
	var traces []string
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing the host's links: %w", err)
	}
	for _, link := range links {
		if strings.Contains(link.Attrs().Name, h.ID()) {
			traces = append(traces, "link "+link.Attrs().Name)
		}
	}
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return nil, err
	}
	for _, dir := range groups.dirs("") {
		if _, err := os.Stat(dir); err == nil {
			traces = append(traces, "cgroup "+filepath.Clean(dir))
		}
	}
	return traces, nil
}
