//go:build e2e

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// host is what a machine could leave behind.
type host struct {
	mounts, links, addresses, routes, namespaces, cgroups, processes map[string]bool
}

// lookAtHost reads the host as the kernel shows it, so that before and after can be compared.
func lookAtHost(t *testing.T) host {
	t.Helper()
	h := host{
		mounts: map[string]bool{}, links: map[string]bool{}, addresses: map[string]bool{}, routes: map[string]bool{},
		namespaces: map[string]bool{}, cgroups: map[string]bool{}, processes: map[string]bool{},
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Fields(line)
		h.mounts[f[4]+" "+f[2]] = true
	}
	h.lookAtNetwork(t)
	h.lookAtProcesses(t)
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && !isOthers(path) {
			h.cgroups[path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// isOthers reports whether a cgroup is that of another program of this host, which may come and go at any
// time: it does not carry our name, and somebody lives in it.
func isOthers(cgroup string) bool {
	inside, _ := os.ReadFile(cgroup + "/cgroup.procs")
	return !strings.Contains(cgroup, "quorate") && len(inside) > 0
}

func (h host) lookAtNetwork(t *testing.T) {
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		h.links[l.Attrs().Name] = true
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			h.addresses[l.Attrs().Name+" "+a.IPNet.String()] = true
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		h.routes[r.String()] = true
	}
}

// lookAtProcesses records the processes that carry a name of ours, and the namespaces of these and of all
// that live in a cgroup of ours.
func (h host) lookAtProcesses(t *testing.T) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		command, err := os.ReadFile(p + "/cmdline")
		if err != nil {
			continue
		}
		line := strings.ReplaceAll(string(command), "\x00", " ")
		named := slices.ContainsFunc([]string{"quorate-node", "quorate daemon", "quorate-e2e-"},
			func(name string) bool { return strings.Contains(line, name) })
		if named {
			h.processes[filepath.Base(p)+" "+line] = true
		}
		if inside, _ := os.ReadFile(p + "/cgroup"); !named && !strings.Contains(string(inside), "quorate") {
			continue
		}
		for _, kind := range []string{"mnt", "net", "pid", "uts", "ipc", "cgroup"} {
			if ns, err := os.Readlink(p + "/ns/" + kind); err == nil {
				h.namespaces[ns] = true
			}
		}
	}
}

// left says what is there now and was not before.
func (h host) left(before host) []string {
	var left []string
	for _, k := range []struct {
		what        string
		now, before map[string]bool
	}{
		{"mount", h.mounts, before.mounts}, {"link", h.links, before.links}, {"address", h.addresses, before.addresses},
		{"route", h.routes, before.routes}, {"namespace", h.namespaces, before.namespaces}, {"cgroup", h.cgroups, before.cgroups},
		{"process", h.processes, before.processes},
	} {
		for name := range k.now {
			if !k.before[name] {
				left = append(left, fmt.Sprintf("%s %s", k.what, name))
			}
		}
	}
	sort.Strings(left)
	return left
}

// down: the whole environment goes with a cluster in it, and nothing is left.
func down(t *testing.T, e *environment, before host) {
	e.up(t, "echo", "--replicas", "1")
	if left := lookAtHost(t).left(before); len(left) == 0 {
		t.Fatal("with a cluster up the host looks as before: the comparison sees nothing")
	}
	e.quorate(t, "down", "--yes")
	// Other programs of this host come and go while this looks; what is ours is gone when down returns, and stays gone.
	eventually(t, "nothing is left", time.Minute, func() string { return strings.Join(lookAtHost(t).left(before), "\n") })
	if _, err := os.Stat(e.state + "/environment.json"); err == nil {
		t.Errorf("the state folder still has files")
	}
	e.quorate(t, "down", "--yes") // a second time there is nothing to do, and that is no error
}
