package sandbox

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOpenChecksTheNetwork(t *testing.T) {
	for _, bad := range []string{"172.30.0.0/25", "10.0.0.0/7", "fd00::/16"} {
		if _, err := Open(t.TempDir(), netip.MustParsePrefix(bad), ""); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	h, err := Open("/var/lib/quorate", netip.MustParsePrefix("172.30.9.9/16"), "")
	if err != nil {
		t.Fatal(err)
	}
	link := h.link(netip.MustParseAddr("172.30.255.254"))
	if h.Gateway().String() != "172.30.0.1" || h.BridgeName() != "qrt-"+h.ID() || len(h.ID()) != 6 || link != "q"+h.ID()+"65534" {
		t.Errorf("%s %s %s", h.Gateway(), h.BridgeName(), link)
	}
	if last := lastAddress(h.network).String(); last != "172.30.255.255" {
		t.Errorf("last address %s", last)
	}
}

func TestNameServers(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "resolv.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub, real := file("nameserver 127.0.0.53\noptions edns0\n"), file("search lan\nnameserver 127.0.0.1\nnameserver 10.0.0.2\n")
	for want, files := range map[string][]string{
		"search lan\nnameserver 10.0.0.2\n": {"/does/not/exist", stub, real},
		"nameserver 172.30.0.1\n":           {stub},
	} {
		if got := string(nameServers("172.30.0.1", files...)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestParseHierarchy(t *testing.T) {
	for line, want := range map[string]hierarchy{
		"30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct": {
			"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"},
		"31 29 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd": {
			"/sys/fs/cgroup/systemd", "none,name=systemd"},
		"32 29 0:28 / /sys/fs/cgroup/freezer rw - cgroup freezer rw,freezer": {"/sys/fs/cgroup/freezer", "freezer"},
		"33 29 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw":        {},
		"21 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard":              {},
	} {
		got, ok := parseHierarchy(line)
		if got != want || ok != (want != hierarchy{}) {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
}

// TestFreezingIsNotFrozen: cgroup v1 says FREEZING while some processes still run, and freeze waits for the end of that. A
// pipe stands for the kernel's file, since that goes on saying what is true whatever is written to it.
func TestFreezingIsNotFrozen(t *testing.T) {
	c := &cgroups{hierarchies: []hierarchy{{mount: t.TempDir(), options: "freezer"}}, group: "group"}
	file, _, _, _ := c.freezer("one", true)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for _, answer := range []string{"FREEZING\n", "FROZEN\n"} { // it is told again before each answer
			if written, err := os.ReadFile(file); err != nil || string(written) != "FROZEN" {
				t.Errorf("the kernel is told %q, %v", written, err)
			}
			if err := os.WriteFile(file, []byte(answer), 0); err != nil {
				t.Error(err)
			}
		}
	}()
	if err := c.freeze(t.Context(), "one", true); err != nil {
		t.Error(err)
	}
	select {
	case <-asked:
	case <-time.After(5 * time.Second):
		t.Error("it did not wait until the kernel said FROZEN")
	}
}

// TestUnifiedGroup tries the way of cgroup v2 as far as a host of cgroup v1 shows it: most mount an empty v2 beside.
func TestUnifiedGroup(t *testing.T) {
	var st unix.Statfs_t
	mount := cgroupRoot + "/unified"
	if os.Getuid() != 0 || unix.Statfs(mount, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("needs root and a cgroup2 mount at " + mount)
	}
	c := &cgroups{unified: true, hierarchies: []hierarchy{{mount: mount}}, group: "quorate-test" + ID(t.TempDir())}
	t.Cleanup(func() {
		if err := c.kill(context.Background(), ""); err != nil {
			t.Error(err)
		}
		if err := c.remove(context.Background(), ""); err != nil {
			t.Error(err)
		}
	})
	g, err := c.make("one", Resources{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	exit := make(chan syscall.WaitStatus, 1)
	go func() {
		state, _ := p.Wait()
		exit <- state.Sys().(syscall.WaitStatus)
	}()
	if err := os.WriteFile(g.Procs[0], []byte(strconv.Itoa(p.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if pids, err := c.processes("one"); err != nil || len(pids) != 1 || pids[0] != p.Pid {
		t.Errorf("processes %v, %v", pids, err)
	}
	for _, frozen := range []bool{true, false, true} {
		if err := c.freeze(t.Context(), "one", frozen); err != nil {
			t.Fatal(err)
		}
		if got, err := c.frozen("one"); got != frozen || err != nil {
			t.Errorf("frozen %v, %v; want %v", got, err, frozen)
		}
	}
	if err := c.kill(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-exit:
		if status.Signal() != unix.SIGKILL {
			t.Errorf("ended with %v", status)
		}
	case <-time.After(10 * time.Second):
		t.Error("a frozen process survived")
	}
	if err := c.remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(mount, c.group, "one")); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}

func TestLinkStore(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "containerd")
	for name, text := range map[string]string{"content/blob": "layer", "metadata/meta.db": "database", "manifest.json": "ours"} {
		if err := os.MkdirAll(filepath.Join(from, filepath.Dir(name)), 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("blob", filepath.Join(from, "content/link")); err != nil {
		t.Fatal(err)
	}
	if err := linkStore(from, to); err != nil {
		t.Fatal(err)
	}
	same := func(name string) bool {
		a, err := os.Lstat(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Lstat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		if a.Mode() != b.Mode() {
			t.Errorf("%s: mode %v, want %v", name, b.Mode(), a.Mode())
		}
		return os.SameFile(a, b)
	}
	if !same("content/blob") || same("metadata/meta.db") || same("content") {
		t.Error("files that never change must be links, databases must not")
	}
	if target, err := os.Readlink(filepath.Join(to, "content/link")); err != nil || target != "blob" {
		t.Errorf("a symbolic link: %q, %v", target, err)
	}
	if _, err := os.Stat(filepath.Join(to, "manifest.json")); err == nil {
		t.Error("what is not containerd's came along")
	}
}

func TestLockFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "machine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFolder(ctx, dir); err == nil {
		t.Error("locked twice")
	}
	second := make(chan error)
	go func() {
		_, err := lockFolder(t.Context(), dir)
		second <- err
	}()
	// Whoever waits for a folder that is removed meanwhile must not take a lock on nothing.
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-second; !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a lock on a removed folder: %v", err)
	}
}
