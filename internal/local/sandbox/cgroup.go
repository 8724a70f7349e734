package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/process"
	"golang.org/x/sys/unix"
)

// cgroups are the host's control groups, as far as one environment uses them. On cgroup v1 a machine has a group
// in every hierarchy; on v2 it has one, whose controllers its own first process hands on.
type cgroups struct {
	unified bool
	// hierarchies by mount point; of v2 there is one.
	hierarchies []hierarchy
	// group is the environment's, in each hierarchy.
	group string
}

type hierarchy struct {
	mount, options string
}

// cgroupRoot is where hosts mount them.
const cgroupRoot = "/sys/fs/cgroup"

// hostCgroups finds out what the host has.
func hostCgroups(id string) (*cgroups, error) {
	c := &cgroups{group: "quorate-" + id}
	var st unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &st); err != nil {
		return nil, fmt.Errorf("looking for cgroups: %w", err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		c.unified, c.hierarchies = true, []hierarchy{{mount: cgroupRoot}}
		return c, nil
	}
	var err error
	if c.hierarchies, err = mountedHierarchies(); err != nil {
		return nil, fmt.Errorf("looking for cgroups: %w", err)
	}
	for _, needed := range []string{"memory", "cpu", "cpuset", "pids", "freezer"} {
		if c.controller(needed) == "" {
			return nil, fmt.Errorf("looking for cgroups: the host has no controller %s mounted below %s", needed, cgroupRoot)
		}
	}
	return c, nil
}

// mountedHierarchies are those of v1, each once, also when it is mounted at several places.
func mountedHierarchies() ([]hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var found []hierarchy
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if h, ok := parseHierarchy(lines.Text()); ok && !slices.ContainsFunc(found, func(o hierarchy) bool { return o.options == h.options }) {
			found = append(found, h)
		}
	}
	return found, lines.Err()
}

// parseHierarchy reads a line of mountinfo; ok is false for anything but a hierarchy of v1.
func parseHierarchy(line string) (hierarchy, bool) {
	before, after, _ := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" {
		return hierarchy{}, false
	}
	var controllers []string
	for _, option := range strings.Split(right[2], ",") {
		if name, ok := strings.CutPrefix(option, "name="); ok {
			return hierarchy{mount: left[4], options: "none,name=" + name}, true
		}
		if !slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode"}, option) &&
			!strings.Contains(option, "=") {
			controllers = append(controllers, option)
		}
	}
	return hierarchy{mount: left[4], options: strings.Join(controllers, ",")}, len(controllers) > 0
}

// controller returns the mount point of the hierarchy with a controller of v1; empty when there is none.
func (c *cgroups) controller(name string) string {
	for _, h := range c.hierarchies {
		if slices.Contains(strings.Split(h.options, ","), name) {
			return h.mount
		}
	}
	return ""
}

// dirs are the machine's groups; of an empty name, the environment's.
func (c *cgroups) dirs(name string) []string {
	dirs := make([]string, len(c.hierarchies))
	for i, h := range c.hierarchies {
		dirs[i] = filepath.Join(h.mount, c.group, name)
	}
	return dirs
}

// make makes the machine's groups with their limits, and returns what its first process needs to know of them.
func (c *cgroups) make(name string, limits Resources) (guest.Cgroups, error) {
	g := guest.Cgroups{Unified: c.unified}
	for i, dir := range c.dirs(name) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return g, fmt.Errorf("making the cgroup: %w", err)
		}
		h := c.hierarchies[i]
		if strings.Contains(","+h.options+",", ",cpuset,") {
			if err := fillCpuset(h.mount, c.group, name); err != nil {
				return g, err
			}
		}
		g.Procs = append(g.Procs, filepath.Join(dir, "cgroup.procs"))
		if !c.unified {
			g.Hierarchies = append(g.Hierarchies, guest.Hierarchy{Name: filepath.Base(h.mount), Options: h.options})
		}
	}
	if c.unified {
		if err := handDown(c.hierarchies[0].mount, c.group); err != nil {
			return g, err
		}
	}
	return g, c.limit(name, limits)
}

// fillCpuset gives groups all CPUs and memory nodes of their parents: on v1 a new group has none, and takes no process.
func fillCpuset(mount string, path ...string) error {
	parent := mount
	for _, name := range path {
		child := filepath.Join(parent, name)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				return fmt.Errorf("reading the host's %s: %w", file, err)
			}
			if err := os.WriteFile(filepath.Join(child, file), value, 0); err != nil {
				return fmt.Errorf("setting %s of the cgroup: %w", file, err)
			}
		}
		parent = child
	}
	return nil
}

// handDown enables every controller of cgroup v2 from the root to the environment's group, for the machines below it.
func handDown(mount, group string) error {
	for _, dir := range []string{mount, filepath.Join(mount, group)} {
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("reading the cgroup's controllers: %w", err)
		}
		for _, name := range strings.Fields(string(available)) {
			err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0)
			// cpu cannot be handed on while the host has real-time processes; the kubelet needs these four.
			if err != nil && slices.Contains([]string{"cpu", "cpuset", "memory", "pids"}, name) {
				return fmt.Errorf("handing the cgroup controller %s on to %s: %w", name, dir, err)
			}
		}
	}
	return nil
}

// processes lists the machine's processes, by the host's numbers.
func (c *cgroups) processes(name string) ([]int, error) {
	var pids []int
	for _, dir := range c.dirs(name) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !e.IsDir() {
				return err
			}
			own, err := groupProcesses(path)
			pids = append(pids, own...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing the processes of %s: %w", name, err)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// groupProcesses lists the processes of one group, without those of the groups below it; none when it is gone.
func groupProcesses(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		// 0 is a process that this pid namespace does not see.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// freezer is the file that freezes the machine, what is written to it, and the file and line that tell when it is done.
func (c *cgroups) freezer(name string, frozen bool) (file, value, state, line string) {
	if c.unified {
		dir := filepath.Join(c.hierarchies[0].mount, c.group, name)
		number := map[bool]string{true: "1", false: "0"}[frozen]
		return filepath.Join(dir, "cgroup.freeze"), number, filepath.Join(dir, "cgroup.events"), "frozen " + number
	}
	file = filepath.Join(c.controller("freezer"), c.group, name, "freezer.state")
	value = map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
	return file, value, file, value
}

// freezeTimeout is how long processes may take to freeze; one that waits for a device cannot before that answers.
const freezeTimeout = 10 * time.Second

// freeze freezes or thaws the machine and waits until it is. One that does not freeze in time goes on: half frozen it would be neither.
func (c *cgroups) freeze(ctx context.Context, name string, frozen bool) error {
	file, value, state, line := c.freezer(name, frozen)
	// Written again with each look: v1 misses a process that begins just while the others freeze, and then stays at "FREEZING" for ever.
	err := poll(ctx, freezeTimeout, "freezing or thawing "+name, func() (bool, error) {
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return false, fmt.Errorf("freezing or thawing %s: %w", name, err)
		}
		return hasLine(state, line)
	})
	if err == nil || !frozen {
		return err
	}
	_, thawed, _, _ := c.freezer(name, false)
	return errors.Join(err, os.WriteFile(file, []byte(thawed), 0))
}

// frozen reports whether the machine is frozen, or being frozen.
func (c *cgroups) frozen(name string) (bool, error) {
	_, _, state, line := c.freezer(name, false)
	thawed, err := hasLine(state, line)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return !thawed && err == nil, err
}

// hasLine reports whether a file of the kernel's has a line.
func hasLine(file, line string) (bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("asking whether a cgroup is frozen: %w", err)
	}
	return slices.Contains(strings.Split(strings.TrimSpace(string(data)), "\n"), line), nil
}

// pollInterval is how often the kernel's files are read for what it does not announce.
const pollInterval = 5 * time.Millisecond

// poll asks until done says so.
func poll(ctx context.Context, timeout time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-again.C:
		}
	}
}

// killTimeout is how long killed processes and empty groups may take to be gone; a busy host is slow at both.
const killTimeout = 60 * time.Second

// kill kills every process of the machine and waits until none is left.
func (c *cgroups) kill(ctx context.Context, name string) error {
	return poll(ctx, killTimeout, "killing the processes of "+name, func() (bool, error) {
		pids, err := c.processes(name)
		if err != nil {
			return false, err
		}
		left := false
		for _, pid := range pids {
			if _, err := process.Identify(pid); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			left = true
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("killing process %d of %s: %w", pid, name, err)
			}
		}
		if !left {
			return true, nil
		}
		// On v1 a frozen process takes no signal, not even this one.
		if err := c.thaw(name); err != nil {
			return false, err
		}
		return false, nil
	})
}

// thaw thaws the group of v1 and every one below: that of the environment does not thaw machines.
func (c *cgroups) thaw(name string) error {
	if c.unified {
		return nil
	}
	err := filepath.WalkDir(filepath.Join(c.controller("freezer"), c.group, name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "freezer.state" {
			return err
		}
		return os.WriteFile(path, []byte("THAWED"), 0)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("thawing %s: %w", name, err)
	}
	return nil
}

// remove removes the machine's groups; of an empty name, the environment's with all below.
func (c *cgroups) remove(ctx context.Context, name string) error {
	for _, dir := range c.dirs(name) {
		// A group stays busy for a moment after its last process.
		err := poll(ctx, killTimeout, "removing the cgroup "+dir, func() (bool, error) {
			err := removeTree(dir)
			if errors.Is(err, unix.EBUSY) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a group and those below. The files in it are the kernel's and go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing the cgroup %s: %w", dir, err)
	}
	return nil
}
