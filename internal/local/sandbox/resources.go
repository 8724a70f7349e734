package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Resources are what a machine may use of its host. They are limits of the machine's cgroup: nothing is set aside for it.
type Resources struct {
	// MilliCPU is how many thousandths of a CPU's time it may use; 0: any.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Memory is how many bytes it may use, files that the kernel keeps for it included; 0: any.
	Memory int64 `json:"memory,omitempty"`
}

// NotFreeError says that the host has not got what a new machine is to be given. It may have, later.
type NotFreeError struct {
	// Resource is "cpu" or "memory"; the numbers are thousandths of a CPU or bytes.
	Resource string
	// Wanted is what the machine is to be given.
	Wanted int64
	// Host is what the host has: all its CPUs, or the memory that is available now.
	Host int64
	// Promised is how much of that belongs to other machines of the environment: of memory, what they do not use yet.
	Promised int64
}

// Free is what is left for a new machine.
func (e *NotFreeError) Free() int64 { return max(0, e.Host-e.Promised) }

// Error implements error.
func (e *NotFreeError) Error() string {
	return fmt.Sprintf("%s: %d are wanted and %d are free: of the host's %d, %d are promised to other machines", e.Resource, e.Wanted,
		e.Free(), e.Host, e.Promised)
}

// promise is what a machine was given, and how much memory of that it uses.
type promise struct {
	Resources
	used int64
}

// fits reports whether a host has got what a new machine is to be given: all its CPUs, and the memory that is available now.
func (r Resources) fits(host Resources, others []promise) error {
	var promised Resources
	for _, o := range others {
		promised.MilliCPU += o.MilliCPU
		promised.Memory += max(0, o.Memory-o.used)
	}
	if r.MilliCPU > 0 && r.MilliCPU > host.MilliCPU-promised.MilliCPU {
		return &NotFreeError{Resource: "cpu", Wanted: r.MilliCPU, Host: host.MilliCPU, Promised: promised.MilliCPU}
	}
	if r.Memory > 0 && r.Memory > host.Memory-promised.Memory {
		return &NotFreeError{Resource: "memory", Wanted: r.Memory, Host: host.Memory, Promised: promised.Memory}
	}
	return nil
}

// room reports whether the host has got what a new machine is to be given; the caller holds the lock of all machines.
func (h *Host) room(r Resources, others []*record) error {
	if r == (Resources{}) {
		return nil
	}
	host, err := hostResources("/proc/meminfo")
	if err != nil {
		return err
	}
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return err
	}
	promises := make([]promise, 0, len(others))
	for _, o := range others {
		used, err := groups.memoryUsed(o.Spec.Name)
		if err != nil {
			return err
		}
		promises = append(promises, promise{o.Spec.Resources, used})
	}
	return r.fits(host, promises)
}

// hostResources are the CPUs that this process may use, and the memory that is available by the kernel's own estimate.
func hostResources(meminfo string) (Resources, error) {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return Resources{}, fmt.Errorf("counting the host's CPUs: %w", err)
	}
	kib, err := field(meminfo, "MemAvailable:")
	if err != nil {
		return Resources{}, fmt.Errorf("asking for the host's memory: %w", err)
	}
	return Resources{MilliCPU: int64(cpus.Count()) * 1000, Memory: kib << 10}, nil
}

// cpuPeriod is within how many microseconds a machine may use its share of the CPUs; it is the kernel's default.
const cpuPeriod = 100_000

// limit limits what the machine's groups use. It is written before there is a process in them, which nothing of the machine can
// outrun. On v1 it could not be written later either, as the groups below have limits of their own then.
func (c *cgroups) limit(name string, r Resources) error {
	quota := strconv.FormatInt(r.MilliCPU*cpuPeriod/1000, 10)
	memory := strconv.FormatInt(r.Memory, 10)
	if c.unified {
		dir := filepath.Join(c.hierarchies[0].mount, c.group, name)
		return errors.Join(
			set(r.MilliCPU > 0, dir, "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)),
			set(r.Memory > 0, dir, "memory.max", memory),
		)
	}
	cpu, mem := filepath.Join(c.controller("cpu"), c.group, name), filepath.Join(c.controller("memory"), c.group, name)
	// Where groups do not count what those below them use, containers would escape the limit.
	before, err := os.ReadFile(filepath.Join(mem, "memory.use_hierarchy"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading memory.use_hierarchy of the cgroup: %w", err)
	}
	return errors.Join(
		set(r.MilliCPU > 0, cpu, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		set(r.MilliCPU > 0, cpu, "cpu.cfs_quota_us", quota),
		set(r.Memory > 0 && strings.TrimSpace(string(before)) == "0", mem, "memory.use_hierarchy", "1"),
		set(r.Memory > 0, mem, "memory.limit_in_bytes", memory),
	)
}

// set writes one value of a group, if it is wanted.
func set(wanted bool, dir, file, value string) error {
	if !wanted {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
		return fmt.Errorf("setting %s of the cgroup to %s: %w", file, value, err)
	}
	return nil
}

// memoryUsed is how many bytes the machine's processes hold that the kernel cannot take back; 0 where it does not run.
func (c *cgroups) memoryUsed(name string) (int64, error) {
	mount, key := c.controller("memory"), "total_rss"
	if c.unified {
		mount, key = c.hierarchies[0].mount, "anon"
	}
	used, err := field(filepath.Join(mount, c.group, name, "memory.stat"), key)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("asking how much memory %s uses: %w", name, err)
	}
	return used, nil
}

// field reads the number after a word that begins a line of a file.
func field(path, word string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == word {
			return strconv.ParseInt(words[1], 10, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s has no line %q", path, word)
}
