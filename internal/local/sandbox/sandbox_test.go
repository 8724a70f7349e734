package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/process"
)

// testNetwork is none that a user's environment has by default.
var testNetwork = netip.MustParsePrefix("172.31.77.0/24")

var nodeBinary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getuid() != 0 {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "quorate-node")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		nodeBinary = filepath.Join(dir, "quorate-node")
		out, err := exec.Command("go", "build", "-o", nodeBinary, "github.com/quorate/quorate/cmd/node").CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "building quorate-node: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// newHost returns an environment of its own that is torn down at the end.
func newHost(t *testing.T) *Host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("machines need root")
	}
	state := t.TempDir()
	h, err := Open(state, testNetwork, nodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Teardown(context.Background()); err != nil {
			t.Errorf("teardown: %v", err)
		}
		traces, err := h.Traces()
		if err != nil || len(traces) > 0 {
			t.Errorf("teardown left %v (%v)", traces, err)
		}
	})
	return h
}

// tiny is a machine without containers.
func tiny(name string, last byte) Spec {
	return Spec{Name: name, Cluster: "test", Address: netip.AddrFrom4([4]byte{172, 31, 77, last})}
}

func ensure(t *testing.T, h *Host, s Spec) Status {
	t.Helper()
	if err := h.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return await(t, h, s.Name, "ready", func(s Status) bool { return s.Ready })
}

// await returns the machine's status once it is as wanted.
func await(t *testing.T, h *Host, name, what string, wanted func(Status) bool) Status {
	t.Helper()
	var s Status
	err := poll(t.Context(), 20*time.Second, "waiting", func() (bool, error) {
		var err error
		s, err = h.Get(name)
		return wanted(s), err
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(h.Logs(name), "init.log"))
		t.Fatalf("%s is not %s: %v\n%+v\n%s", name, what, err, s, log)
	}
	return s
}

// run runs a shell command in a machine and returns what it printed.
func run(t *testing.T, h *Host, name, command string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := h.Exec(t.Context(), name, []string{"sh", "-c", command}, Stdio{Out: &out, Err: &out})
	if err != nil || code != 0 {
		t.Fatalf("%q in %s: exit code %d, %v\n%s", command, name, code, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func TestMachineIsAWorldOfItsOwn(t *testing.T) {
	h := newHost(t)
	secret := filepath.Join(h.state, "secret")
	if err := os.WriteFile(secret, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, h, tiny("one", 11))
	for command, want := range map[string]string{
		"hostname":         "one",
		"cat /proc/1/comm": "quorate-node",
		"ip -4 -o addr show eth0 | grep -c 172.31.77.11/24": "1",
		"ip route show default":                             "default via 172.31.77.1 dev eth0",
		"cat /proc/sys/net/ipv4/ip_forward":                 "1",
		"cat /proc/sys/kernel/panic":                        "10",
		"ls " + h.state + " 2>/dev/null | wc -l":            "0",
		"ls -A /root /home /etc/kubernetes /var/lib/kubelet /etc/ssh 2>/dev/null | grep -v : | tr -d '\\n'": "",
		"cat /etc/shadow": "root:*:::::::",
		"which systemctl": "/opt/quorate/sbin/systemctl",
		"touch /usr/local/of-this-machine && echo written": "written",
		"echo $HOME": "/root",
		"cat < /proc/self/cgroup | grep -v ':/$' | grep -v unified | grep -v '^0::' | wc -l": "0",
	} {
		if got := run(t, h, "one", command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if _, err := os.Stat("/usr/local/of-this-machine"); err == nil {
		t.Error("what the machine writes below /usr appears on the host")
	}
	if value, _ := os.ReadFile("/proc/sys/kernel/panic"); strings.TrimSpace(string(value)) == "10" {
		t.Log("the host's kernel.panic is 10 as well: the shield is not shown by it")
	}
}

func TestExecPassesOn(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	var out, errs bytes.Buffer
	code, err := h.Exec(t.Context(), "one", []string{"sh", "-c", "cat; echo wrong >&2; exit 7"},
		Stdio{In: strings.NewReader("through"), Out: &out, Err: &errs})
	if code != 7 || err != nil || out.String() != "through" || errs.String() != "wrong\n" {
		t.Errorf("exit code %d, %v, output %q, errors %q", code, err, out.String(), errs.String())
	}
	if _, err := h.Exec(t.Context(), "none", []string{"true"}, Stdio{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a command in no machine: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	go func() {
		defer close(began)
		_ = poll(t.Context(), 10*time.Second, "waiting", func() (bool, error) {
			return len(find(t, h, "one", "sleep")) == 1, nil
		})
		cancel()
	}()
	if _, err := h.Exec(ctx, "one", []string{"sleep", "1000"}, Stdio{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled command: %v", err)
	}
	<-began
	err = poll(t.Context(), 10*time.Second, "waiting", func() (bool, error) { return len(find(t, h, "one", "sleep")) == 0, nil })
	if err != nil {
		t.Errorf("a cancelled command lives on: %v", err)
	}
}

// find returns the processes of a machine with a program's name.
func find(t *testing.T, h *Host, name, want string) []int {
	t.Helper()
	groups, err := hostCgroups(h.ID())
	if err != nil {
		t.Fatal(err)
	}
	pids, err := groups.processes(name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return program(pid) != want })
}

// firstProcess is the one of a machine that runs.
func firstProcess(t *testing.T, s Status) process.ID {
	t.Helper()
	p, err := process.Identify(s.PID)
	if err != nil || !p.Alive() {
		t.Fatalf("the machine's first process is %+v, %v", p, err)
	}
	return p
}

func TestStopKeepsTheDisk(t *testing.T) {
	h := newHost(t)
	first := firstProcess(t, ensure(t, h, tiny("one", 11)))
	run(t, h, "one", "echo kept > /root/file; echo kept > /usr/local/file; (sleep 1000 >/dev/null 2>&1 &)")
	if err := h.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	s, err := h.Get("one")
	if err != nil || s.State != Stopped || s.PID != 0 || s.Ready {
		t.Errorf("after stop: %+v, %v", s, err)
	}
	if left := find(t, h, "one", "sleep"); len(left) > 0 {
		t.Errorf("processes %v outlived the machine", left)
	}
	if first.Alive() {
		t.Error("the first process lives")
	}
	if err := h.Ensure(t.Context(), tiny("one", 11)); err != nil {
		t.Fatal(err)
	}
	if s, _ := h.Get("one"); s.State != Stopped {
		t.Errorf("Ensure started a machine that was stopped on purpose: %s", s.State)
	}
	if err := h.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	await(t, h, "one", "ready", func(s Status) bool { return s.Ready && s.State == Running })
	if got := run(t, h, "one", "cat /root/file /usr/local/file"); got != "kept\nkept" {
		t.Errorf("the disk lost its files: %q", got)
	}
}

func TestPause(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	run(t, h, "one", "(while :; do date +%s%N > /root/beat.new; mv /root/beat.new /root/beat; done) >/dev/null 2>&1 & true")
	beat := func() string {
		data, _ := os.ReadFile(filepath.Join(h.folder("one").disk(), "root/beat"))
		return string(data)
	}
	beats := func() error {
		first := beat()
		return poll(t.Context(), 10*time.Second, "waiting for a beat", func() (bool, error) { return beat() != first, nil })
	}
	if err := beats(); err != nil {
		t.Fatal(err)
	}
	if err := h.Pause(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if s, _ := h.Get("one"); s.State != Paused || s.Ready {
		t.Errorf("after pause: %+v", s)
	}
	if _, err := h.Exec(t.Context(), "one", []string{"true"}, Stdio{}); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("a command in a paused machine: %v", err)
	}
	frozen := beat()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := poll(ctx, time.Second, "looking", func() (bool, error) { return beat() != frozen, nil }); err == nil {
		t.Error("a process of a paused machine went on")
	}
	if err := h.Resume(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := beats(); err != nil {
		t.Errorf("after resume: %v", err)
	}
	if err := h.Pause(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(t.Context(), "one"); err != nil {
		t.Errorf("deleting a paused machine: %v", err)
	}
}

// Processes that begin while the machine freezes are frozen too: asked once, cgroup v1 fails at about one time in twenty of these.
func TestPauseWhileProcessesBegin(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	for range 4 {
		run(t, h, "one", "(while :; do date > /root/beat; done) >/dev/null 2>&1 & true")
	}
	for i := range 100 {
		if err := h.Pause(t.Context(), "one"); err != nil {
			t.Fatalf("pause %d: %v", i, err)
		}
		if err := h.Resume(t.Context(), "one"); err != nil {
			t.Fatalf("resume %d: %v", i, err)
		}
	}
}

func ping(t *testing.T, h *Host, from, to string) error {
	t.Helper()
	code, err := h.Exec(t.Context(), from, []string{"timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/" + to}, Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		return fmt.Errorf("%s does not reach %s", from, to)
	}
	return nil
}

func TestPartitionAndPeers(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	ensure(t, h, tiny("two", 12))
	pods := netip.MustParsePrefix("10.99.2.0/24")
	if err := h.SetPeers(t.Context(), "one", map[netip.Prefix]netip.Addr{pods: tiny("two", 12).Address,
		netip.MustParsePrefix("10.99.3.0/24"): tiny("", 13).Address}); err != nil {
		t.Fatal(err)
	}
	run(t, h, "one", "ip route add 10.98.0.0/16 via 172.31.77.12")
	if err := h.SetPeers(t.Context(), "one", map[netip.Prefix]netip.Addr{pods: tiny("two", 12).Address}); err != nil {
		t.Fatal(err)
	}
	routes := run(t, h, "one", "ip route")
	if !strings.Contains(routes, "10.99.2.0/24 via 172.31.77.12") || strings.Contains(routes, "10.99.3.0") ||
		!strings.Contains(routes, "10.98.0.0/16") {
		t.Errorf("routes after two calls:\n%s", routes)
	}
	run(t, h, "two", "ip addr add 10.99.2.1/24 dev lo; (python3 -c 'import http.server as s; s.HTTPServer((\"\",8080), "+
		"s.SimpleHTTPRequestHandler).serve_forever()' >/dev/null 2>&1 &)")
	for _, to := range []string{"172.31.77.12/8080", "10.99.2.1/8080"} {
		if err := poll(t.Context(), 10*time.Second, "reaching "+to,
			func() (bool, error) { return ping(t, h, "one", to) == nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Partition(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(h.link(tiny("two", 12).Address))
	if err != nil || link.Attrs().Flags&unix.IFF_UP != 0 {
		t.Errorf("the link of a partitioned machine: %+v, %v", link, err)
	}
	if s, _ := h.Get("two"); !s.Partitioned || s.State != Running {
		t.Errorf("after partition: %+v", s)
	}
	if err := h.Heal(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), 10*time.Second, "reaching two",
		func() (bool, error) { return ping(t, h, "one", "172.31.77.12/8080") == nil, nil }); err != nil {
		t.Errorf("after heal: %v", err)
	}
	if err := h.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if routes := run(t, h, "one", "ip route"); !strings.Contains(routes, "10.99.2.0/24 via 172.31.77.12") {
		t.Errorf("routes after a restart:\n%s", routes)
	}
}

// census is everything of a machine's that could be left on the host.
type census struct{ links, mounts, cgroups, nodes []string }

func take(t *testing.T, h *Host) census {
	t.Helper()
	var c census
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		c.links = append(c.links, l.Attrs().Name)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	c.mounts = strings.Split(string(mounts), "\n")
	groups, err := hostCgroups(h.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range groups.dirs("") {
		inside, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		c.cgroups = append(c.cgroups, inside...)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if _, err := process.Identify(pid); err != nil {
			continue
		}
		if root, _ := os.Readlink(filepath.Join(p, "root")); strings.HasPrefix(root, h.state) {
			c.nodes = append(c.nodes, p)
		}
	}
	return c
}

func TestDeleteLeavesNothing(t *testing.T) {
	h := newHost(t)
	if err := h.EnsureNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := take(t, h)
	ensure(t, h, tiny("one", 11))
	if during := take(t, h); fmt.Sprint(during) == fmt.Sprint(before) {
		t.Error("the comparison does not see a machine")
	}
	if err := h.Delete(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if after := take(t, h); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("left behind:\n%+v\nbefore:\n%+v", after, before)
	}
	if _, err := os.Stat(string(h.folder("one"))); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if _, err := h.Get("one"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := h.Delete(t.Context(), "one"); err != nil {
		t.Errorf("a second delete: %v", err)
	}
}

func TestAnotherProcessFindsTheMachine(t *testing.T) {
	h := newHost(t)
	s := ensure(t, h, tiny("one", 11))
	other, err := Open(h.state, testNetwork, nodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	again := ensure(t, other, tiny("one", 11))
	if again.PID != s.PID {
		t.Errorf("process %d became %d: the machine was started again", s.PID, again.PID)
	}
	changed := other.Changed()
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, other, "one", "dead", func(s Status) bool { return s.State == Dead && !s.Ready })
	expect(t, changed, "one")
	if new := ensure(t, other, tiny("one", 11)); new.PID == s.PID {
		t.Error("a dead machine was not started again")
	}
}

// expect waits for a name.
func expect(t *testing.T, changed <-chan string, name string) {
	t.Helper()
	select {
	case got := <-changed:
		if got != name {
			t.Errorf("changed %q, want %q", got, name)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("no change of %s was told", name)
	}
}

func TestTeardownFindsWhatHasNoFiles(t *testing.T) {
	h := newHost(t)
	first := firstProcess(t, ensure(t, h, tiny("one", 11)))
	ensure(t, h, tiny("two", 12))
	if err := h.Pause(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := os.Remove(h.folder(name).record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first.Alive() {
		t.Error("a machine without a record lives")
	}
	if entries, err := os.ReadDir(h.state); err != nil || len(entries) > 0 {
		t.Errorf("left in the state folder: %v, %v", entries, err)
	}
}

func TestRefusals(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	outside := tiny("two", 12)
	outside.Address = netip.MustParseAddr("172.29.0.9")
	moved := tiny("one", 14)
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"name":      {func() error { return h.Ensure(t.Context(), tiny("../x", 12)) }, "DNS label"},
		"address":   {func() error { return h.Ensure(t.Context(), outside) }, "172.31.77.0/24"},
		"taken":     {func() error { return h.Ensure(t.Context(), tiny("two", 11)) }, "belongs to machine one"},
		"moved":     {func() error { return h.Ensure(t.Context(), moved) }, "cannot be changed"},
		"component": {func() error { return h.KillComponent(t.Context(), "one", "sshd") }, "kube-apiserver"},
		"no such":   {func() error { return h.KillComponent(t.Context(), "one", "etcd") }, "runs no etcd"},
		"missing":   {func() error { return h.Stop(t.Context(), "none") }, "no such machine"},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something with %q", name, err, c.want)
		}
	}
	if list, err := h.List(); err != nil || len(list) != 1 {
		t.Errorf("machines after refusals: %v, %v", list, err)
	}
	other, err := Open(t.TempDir(), testNetwork, nodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	err = other.EnsureNetwork(t.Context())
	if err == nil || !strings.Contains(err.Error(), h.BridgeName()+" (quorate's environment in "+h.state+")") ||
		!strings.Contains(err.Error(), testNetwork.String()) {
		t.Errorf("a range in use: %v", err)
	}
}

// TestKubeletDefaults: machines' images come from their host, which kubelets that ask for leave are told; older ones would refuse it.
func TestKubeletDefaults(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "kubeadm"), []byte("#!/bin/sh\necho registry.k8s.io/pause:3.10.2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for kubernetes, want := range map[string]bool{"v1.34.4": false, "v1.35.4": true, "v1.36.3": true} {
		files, err := settings(t.Context(), Spec{Name: "demo-cp-1", Artifacts: artifacts.Set{Kubernetes: kubernetes, Machine: programs}})
		if err != nil {
			t.Fatal(err)
		}
		got := files[strings.TrimPrefix(guest.KubeletDropIns, "/etc/")+"/10-quorate.conf"]
		if strings.Contains(got, believedImages) != want || !strings.HasPrefix(got, kubeletConfig) ||
			!strings.HasSuffix(got, "providerID: local://demo-cp-1\n") {
			t.Errorf("%s: %s", kubernetes, got)
		}
	}
}
