package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/vishvananda/netlink"
)

// The kernel's limit on watches of files per user. A control plane machine takes about 25; all machines of a host count as one user.
const (
	watchLimitFile = "/proc/sys/fs/inotify/max_user_instances"
	watchesWanted  = 8192
)

// formerLimit is where the limit from before the first machine is kept until Teardown.
func (h *Host) formerLimit() string { return filepath.Join(h.machines(), ".watches-before") }

// raiseLimits raises the limit where it is too small for machines; the caller holds the lock of all machines.
func (h *Host) raiseLimits() error {
	before, err := readNumber(watchLimitFile)
	if err != nil || before >= watchesWanted {
		return err
	}
	if err := atomicfile.Write(h.formerLimit(), []byte(strconv.Itoa(before)), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(watchLimitFile, []byte(strconv.Itoa(watchesWanted)), 0); err != nil {
		return fmt.Errorf("raising %s: %w", watchLimitFile, err)
	}
	return nil
}

// lowerLimits undoes it, unless somebody else changed the limit since or another environment needs it.
func (h *Host) lowerLimits() error {
	before, err := readNumber(h.formerLimit())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := readNumber(watchLimitFile)
	if err != nil {
		return err
	}
	if now == watchesWanted && !othersLive() {
		if err := os.WriteFile(watchLimitFile, []byte(strconv.Itoa(before)), 0); err != nil {
			return fmt.Errorf("lowering %s: %w", watchLimitFile, err)
		}
	}
	if err := os.Remove(h.formerLimit()); err != nil {
		return fmt.Errorf("forgetting the host's former limit: %w", err)
	}
	return nil
}

// othersLive reports whether there is a bridge of any environment; that of this one is gone by then.
func othersLive() bool {
	links, err := netlink.LinkList()
	if err != nil {
		return true
	}
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, bridgePrefix) {
			return true
		}
	}
	return false
}

func readNumber(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading a limit: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return n, nil
}
