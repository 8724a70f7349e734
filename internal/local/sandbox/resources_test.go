package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const gib = 1 << 30

func TestFits(t *testing.T) {
	host := Resources{MilliCPU: 4000, Memory: 8 * gib}
	promised := []promise{{Resources{MilliCPU: 1500, Memory: 2 * gib}, gib}, {Resources{Memory: gib}, 2 * gib}, {Resources{}, gib},
		{Resources{MilliCPU: 500}, 0}}
	for name, c := range map[string]struct {
		wanted Resources
		others []promise
		want   *NotFreeError
	}{
		"all of it":                 {host, nil, nil},
		"too many CPUs":             {Resources{MilliCPU: 4001}, nil, &NotFreeError{"cpu", 4001, 4000, 0}},
		"too much memory":           {Resources{Memory: 8*gib + 1}, nil, &NotFreeError{"memory", 8*gib + 1, 8 * gib, 0}},
		"what others left":          {Resources{MilliCPU: 2000, Memory: 7 * gib}, promised, nil},
		"CPUs that others have":     {Resources{MilliCPU: 2001}, promised, &NotFreeError{"cpu", 2001, 4000, 2000}},
		"memory promised to others": {Resources{Memory: 7*gib + 1}, promised, &NotFreeError{"memory", 7*gib + 1, 8 * gib, gib}},
		"no limits":                 {Resources{}, []promise{{Resources{MilliCPU: 9000, Memory: 9 * gib}, 0}}, nil},
		"one limit":                 {Resources{Memory: gib}, []promise{{Resources{MilliCPU: 9000}, 0}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.wanted.fits(host, c.others)
			var got *NotFreeError
			if errors.As(err, &got) != (c.want != nil) || got != nil && *got != *c.want || (err == nil) != (c.want == nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	over := &NotFreeError{Host: 1, Promised: 3}
	if over.Free() != 0 {
		t.Errorf("%d are free where more is promised than there is", over.Free())
	}
}

// fakeGroups are the groups of a machine in a folder that stands for the kernel's, with files that have the given text.
func fakeGroups(t *testing.T, c *cgroups, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(c.hierarchies[0].mount, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wantFiles checks what was written to groups.
func wantFiles(t *testing.T, mount string, files map[string]string) {
	t.Helper()
	for path, want := range files {
		if got, err := os.ReadFile(filepath.Join(mount, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestLimits(t *testing.T) {
	limits := Resources{MilliCPU: 1500, Memory: 2 * gib}
	t.Run("v2", func(t *testing.T) {
		root := t.TempDir()
		c := &cgroups{unified: true, hierarchies: []hierarchy{{mount: root}}, group: "group"}
		fakeGroups(t, c, map[string]string{
			"cgroup.controllers": "cpu memory", "cgroup.subtree_control": "", "group/cgroup.controllers": "cpu memory",
			"group/cgroup.subtree_control": "",
			"group/one/cpu.max":            "max 100000", "group/one/memory.max": "max", "group/two/cpu.max": "max 100000",
			"group/two/memory.max":  "max",
			"group/one/memory.stat": "anon 4096\nfile 8192\n",
		})
		for name, r := range map[string]Resources{"one": limits, "two": {Memory: gib}} {
			if _, err := c.make(name, r); err != nil {
				t.Fatal(err)
			}
		}
		wantFiles(t, root, map[string]string{
			"group/one/cpu.max": "150000 100000", "group/one/memory.max": "2147483648",
			"group/two/cpu.max": "max 100000", "group/two/memory.max": "1073741824",
		})
		wantUsed(t, c, map[string]int64{"one": 4096, "two": 0})
	})
	t.Run("v1", func(t *testing.T) {
		root := t.TempDir()
		c := &cgroups{hierarchies: []hierarchy{{mount: root + "/cpu,cpuacct", options: "cpu,cpuacct"},
			{mount: root + "/memory", options: "memory"}}, group: "group"}
		fakeGroups(t, c, map[string]string{
			"group/one/cpu.cfs_period_us": "1000", "group/one/cpu.cfs_quota_us": "-1", "group/two/cpu.cfs_period_us": "1000",
			"group/two/cpu.cfs_quota_us":               "-1",
			"../memory/group/one/memory.use_hierarchy": "0\n", "../memory/group/one/memory.limit_in_bytes": "9",
			"../memory/group/two/memory.use_hierarchy": "1\n", "../memory/group/two/memory.limit_in_bytes": "9",
			"../memory/group/one/memory.stat": "rss 1\ntotal_cache 3\ntotal_rss 8192\n",
		})
		for name, r := range map[string]Resources{"one": limits, "two": {MilliCPU: 100}} {
			if _, err := c.make(name, r); err != nil {
				t.Fatal(err)
			}
		}
		wantFiles(t, root, map[string]string{
			"cpu,cpuacct/group/one/cpu.cfs_period_us": "100000", "cpu,cpuacct/group/one/cpu.cfs_quota_us": "150000",
			"memory/group/one/memory.use_hierarchy": "1", "memory/group/one/memory.limit_in_bytes": "2147483648",
			"cpu,cpuacct/group/two/cpu.cfs_quota_us": "10000",
			"memory/group/two/memory.use_hierarchy":  "1\n", "memory/group/two/memory.limit_in_bytes": "9",
		})
		wantUsed(t, c, map[string]int64{"one": 8192, "two": 0})
	})
	t.Run("refused", func(t *testing.T) {
		c := &cgroups{unified: true, hierarchies: []hierarchy{{mount: t.TempDir()}}, group: "group"}
		if err := c.limit("one", limits); err == nil || !strings.Contains(err.Error(), "cpu.max") ||
			!strings.Contains(err.Error(), "memory.max") {
			t.Errorf("limits that cannot be set: %v", err)
		}
	})
}

func wantUsed(t *testing.T, c *cgroups, want map[string]int64) {
	t.Helper()
	for name, want := range want {
		if got, err := c.memoryUsed(name); got != want || err != nil {
			t.Errorf("%s uses %d, %v; want %d", name, got, err, want)
		}
	}
}

func TestHostResources(t *testing.T) {
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]int64{"MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n": 2 << 20, "MemTotal: 9 kB\n": 0} {
		if err := os.WriteFile(meminfo, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := hostResources(meminfo)
		if (err != nil) != (want == 0) || got.Memory != want || err == nil && (got.MilliCPU < 1000 || got.MilliCPU%1000 != 0) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestRecordsWithoutResources: what earlier versions wrote has no limits, and what this one writes without limits reads the same.
func TestRecordsWithoutResources(t *testing.T) {
	f := folder(filepath.Join(t.TempDir(), "one"))
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.record(), []byte(`{"spec":{"name":"one","address":"172.31.77.11","podCIDR":"","artifacts":{}},"made":true}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	r, err := f.load()
	if err != nil || r.Spec.Resources != (Resources{}) {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "resources") {
		t.Errorf("%s, %v", text, err)
	}
	r.Spec.Resources = Resources{MilliCPU: 250, Memory: gib}
	if err := f.save(r); err != nil {
		t.Fatal(err)
	}
	if again, err := f.load(); err != nil || again.Spec.Resources != r.Spec.Resources {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestLimitsOfAMachine reads its limits on a machine, where root may have started anything, and tries them.
func TestLimitsOfAMachine(t *testing.T) {
	h := newHost(t)
	wanted := tiny("one", 11)
	wanted.Resources = Resources{MilliCPU: 250, Memory: 128 << 20}
	if s := ensure(t, h, wanted); s.Resources != wanted.Resources {
		t.Errorf("the status has %+v", s.Resources)
	}
	groups, err := hostCgroups(h.ID())
	if err != nil {
		t.Fatal(err)
	}
	command := "cd /sys/fs/cgroup && cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory/memory.limit_in_bytes"
	want := "25000\n100000\n134217728"
	if groups.unified {
		command, want = "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max", "25000 100000\n134217728"
	}
	if got := run(t, h, "one", command); got != want {
		t.Errorf("limits %q, want %q", got, want)
	}
	if used, err := groups.memoryUsed("one"); err != nil || used <= 0 || used > 128<<20 {
		t.Errorf("it uses %d bytes, %v", used, err)
	}
	if got := run(t, h, "one", "head -c 300M /dev/zero | tail -c 300M >/dev/null 2>&1 || true; echo lives"); !strings.HasSuffix(got, "lives") {
		t.Errorf("a process that wants more than there is: %q", got)
	}
	if used, err := groups.memoryUsed("one"); err != nil || used > 128<<20 {
		t.Errorf("it uses %d bytes, %v", used, err)
	}

	// Power off and on, by another process that has the state folder only.
	if err := h.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	other, err := Open(h.state, testNetwork, nodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	await(t, other, "one", "ready", func(s Status) bool { return s.Ready })
	if got := run(t, other, "one", command); got != want {
		t.Errorf("limits after a restart %q, want %q", got, want)
	}

	// What the host has not got is refused before anything is made, and may be asked for again.
	greedy := tiny("two", 12)
	greedy.Resources.Memory = 1 << 60
	var missing *NotFreeError
	if err := h.Ensure(t.Context(), greedy); !errors.As(err, &missing) || missing.Resource != "memory" || missing.Promised <= 0 {
		t.Errorf("more memory than there is: %v", err)
	}
	greedy.Resources = Resources{MilliCPU: missing.Wanted}
	if err := h.Ensure(t.Context(), greedy); !errors.As(err, &missing) || missing.Resource != "cpu" || missing.Promised != 250 {
		t.Errorf("more CPUs than there are: %v", err)
	}
	if list, err := h.List(); err != nil || len(list) != 1 {
		t.Errorf("machines after refusals: %v, %v", list, err)
	}
	greedy.Resources = Resources{MilliCPU: -1}
	if err := h.Ensure(t.Context(), greedy); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("less than nothing: %v", err)
	}
	greedy.Resources = Resources{MilliCPU: 100}
	if s := ensure(t, h, greedy); s.State != Running {
		t.Errorf("%+v", s)
	}
}
