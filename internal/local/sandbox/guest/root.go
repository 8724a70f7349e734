package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// enterRoot makes the machine's mounts out of the host's folders and makes its disk the root. Nothing of
// the host that is not mounted here can be seen afterwards.
func enterRoot(b *Boot) error {
	// Mounts of the machine must not appear on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(b.Disk, b.Disk, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the disk %s: %w", b.Disk, err)
	}
	d, err := openDisk(b.Disk)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.mountAll(b); err != nil {
		return err
	}
	return pivot(b.Disk)
}

func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("entering the disk: %w", err)
	}
	// With both arguments the same the old root lies on top of the new one and can be unmounted from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting the host's root go: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	// The kubelet needs mounts of pods to be seen by its own containers.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making mounts shared: %w", err)
	}
	return nil
}

// disk is the machine's root while the host's files are still in sight. Whatever is done on it follows no link out of it.
type disk struct{ *os.Root }

// openDisk opens a machine's disk; what is mounted on that folder later is not seen.
func openDisk(path string) (disk, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return disk{}, fmt.Errorf("opening the disk: %w", err)
	}
	return disk{root}, nil
}

func (d disk) mountAll(b *Boot) error {
	for _, o := range b.Overlays {
		if err := d.mountOverlay(o); err != nil {
			return err
		}
	}
	if err := d.mountKernel(); err != nil {
		return err
	}
	for _, bind := range b.Binds {
		if err := d.mountBind(bind); err != nil {
			return err
		}
	}
	// Both lie in what was mounted just now, which holds nothing of the machine's.
	if err := makeDevices(filepath.Join(b.Disk, "dev")); err != nil {
		return err
	}
	return mountCgroups(filepath.Join(b.Disk, "sys/fs/cgroup"), b.Cgroups)
}

// mountPoint makes and opens the file or folder that something is mounted on.
func (d disk) mountPoint(target string, folder bool) (*os.File, error) {
	name := filepath.Join(".", target)
	above := name
	if !folder {
		above = filepath.Dir(name)
	}
	if err := d.MkdirAll(above, 0o755); err != nil {
		return nil, fmt.Errorf("making %s on the disk: %w", target, err)
	}
	if !folder {
		f, err := d.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("making %s on the disk: %w", target, err)
		}
	}
	point, err := d.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s on the disk: %w", target, err)
	}
	return point, nil
}

// through is a path to an opened file that leads over no link of the machine.
func through(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// mount mounts something on a file or folder of the disk.
func (d disk) mount(source, target string, folder bool, kind string, flags uintptr, options string) error {
	point, err := d.mountPoint(target, folder)
	if err != nil {
		return err
	}
	defer func() { _ = point.Close() }()
	return unix.Mount(source, through(point), kind, flags, options)
}

func (d disk) mountOverlay(o Overlay) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", escape(o.Lower), escape(o.Upper), escape(o.Work))
	if err := d.mount("overlay", o.Target, true, "overlay", 0, options); err != nil {
		return fmt.Errorf("mounting an overlay over %s at %s: %w", o.Lower, o.Target, err)
	}
	return nil
}

// escape protects what separates options and layers in the options of an overlay.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

func (d disk) mountBind(b Bind) error {
	info, err := os.Stat(b.Source)
	if err != nil {
		return fmt.Errorf("showing %s in the machine: %w", b.Source, err)
	}
	if err := d.mount(b.Source, b.Target, info.IsDir(), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("showing %s at %s: %w", b.Source, b.Target, err)
	}
	if !b.ReadOnly {
		return nil
	}
	// Opened again, the path leads to what was mounted.
	if err := d.mount("", b.Target, info.IsDir(), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", b.Target, err)
	}
	return nil
}

// mountKernel mounts what the kernel provides, and the folders that live in memory.
func (d disk) mountKernel() error {
	for _, m := range []struct {
		kind, target, options string
		flags                 uintptr
	}{
		{"proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "dev", "mode=755,size=1m", unix.MS_NOSUID},
		{"devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"mqueue", "dev/mqueue", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := d.mount(m.kind, m.target, true, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mounting %s at /%s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

func makeDevices(dev string) error {
	for _, d := range []struct {
		name         string
		major, minor uint32
		optional     bool
	}{
		{name: "null", major: 1, minor: 3}, {name: "zero", major: 1, minor: 5}, {name: "full", major: 1, minor: 7},
		{name: "random", major: 1, minor: 8}, {name: "urandom", major: 1, minor: 9}, {name: "tty", major: 5},
		// The kubelet's watch for processes killed for memory reads it.
		{name: "kmsg", major: 1, minor: 11, optional: true},
		{name: "fuse", major: 10, minor: 229, optional: true},
		{name: "net/tun", major: 10, minor: 200, optional: true},
	} {
		path := filepath.Join(dev, d.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", path, err)
		}
		err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor)))
		if err == nil {
			// mknod is subject to the umask.
			err = os.Chmod(path, 0o666)
		}
		if err != nil && !d.optional {
			return fmt.Errorf("making the device %s: %w", d.name, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	return nil
}

// mountCgroups mounts the hierarchies again, so that their roots are the machine's own cgroups: a bind of the
// host's mounts makes the kubelet fail with "failed to find cgroup mounts".
func mountCgroups(target string, c Cgroups) error {
	if c.Unified {
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		if err := unix.Mount("cgroup2", target, "cgroup2", flags, ""); err != nil {
			return fmt.Errorf("mounting cgroup2: %w", err)
		}
		return delegate(target)
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
		return fmt.Errorf("mounting the folder of cgroups: %w", err)
	}
	for _, h := range c.Hierarchies {
		if err := h.mount(target); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts a hierarchy of the first version in the folder of all. One of several controllers can be found under the name of each.
func (h Hierarchy) mount(target string) error {
	dir := filepath.Join(target, h.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	if err := unix.Mount("cgroup", dir, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.Options); err != nil {
		return fmt.Errorf("mounting the cgroup hierarchy %s: %w", h.Options, err)
	}
	aliases := strings.Split(h.Name, ",")
	if len(aliases) == 1 {
		return nil
	}
	for _, alias := range aliases {
		if err := os.Symlink(h.Name, filepath.Join(target, alias)); err != nil {
			return fmt.Errorf("naming the cgroup hierarchy %s: %w", alias, err)
		}
	}
	return nil
}

// Leaf is the cgroup, below the machine's own, that holds its processes on cgroup v2. Only a group without processes of
// its own may hand its controllers on, and the kubelet wants them at the top.
const Leaf = "init"

// delegate moves this process to the leaf and hands all controllers on to the groups that the kubelet makes.
func delegate(root string) error {
	leaf := filepath.Join(root, Leaf)
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("making the cgroup %s: %w", Leaf, err)
	}
	if err := JoinCgroups([]string{filepath.Join(leaf, "cgroup.procs")}); err != nil {
		return err
	}
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the cgroup's controllers: %w", err)
	}
	for _, c := range strings.Fields(string(available)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("handing on the cgroup controller %s: %w", c, err)
		}
	}
	return nil
}
