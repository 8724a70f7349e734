package sandbox

import (
	"strings"
	"testing"
	"time"
)

func bootstrap(t *testing.T, h *Host, name string, lines ...string) {
	t.Helper()
	if err := h.Bootstrap(t.Context(), name, []byte("#cloud-config\n"+strings.Join(lines, "\n")+"\n")); err != nil {
		t.Fatal(err)
	}
}

// toldIn returns what a machine says of its bootstrap, which must have ended a moment ago, without the time.
func toldIn(t *testing.T, s Status) Bootstrap {
	t.Helper()
	if age := time.Since(s.Bootstrap.Ended); age < 0 || age > time.Minute {
		t.Errorf("it ended %s ago: %+v", age, s.Bootstrap)
	}
	s.Bootstrap.Ended = time.Time{}
	return s.Bootstrap
}

func ended(s Status) bool {
	return s.Bootstrap.Phase == BootstrapSucceeded || s.Bootstrap.Phase == BootstrapFailed
}

func TestBootstrapOnceInALife(t *testing.T) {
	h := newHost(t)
	ensure(t, h, tiny("one", 11))
	bootstrap(t, h, "one", "runcmd: ['echo ran >> /root/runs']")
	if s := await(t, h, "one", "bootstrapped", ended); toldIn(t, s) != (Bootstrap{Phase: BootstrapSucceeded}) {
		t.Fatalf("%+v", s.Bootstrap)
	}
	bootstrap(t, h, "one", "runcmd: ['echo again >> /root/runs']")
	if err := h.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	s := await(t, h, "one", "ready", func(s Status) bool { return s.Ready })
	if got := run(t, h, "one", "cat /root/runs"); got != "ran" || s.Bootstrap.Phase != BootstrapSucceeded {
		t.Errorf("after a second data and a restart: %q, %+v", got, s.Bootstrap)
	}
}

func TestBootstrapSaysWhatFailed(t *testing.T) {
	h := newHost(t)
	for i, c := range []struct {
		lines []string
		want  Bootstrap
	}{
		{[]string{"runcmd: ['true', 'echo why; false']"}, Bootstrap{Phase: BootstrapFailed, Command: "echo why; false", Output: "why"}},
		{[]string{"runcmd: ['mkdir -p /etc/kubernetes && mount -t tmpfs -o size=64k tmpfs /etc/kubernetes && cat /dev/zero 2>/dev/null > " +
			"/etc/kubernetes/x || echo full; false']"}, Bootstrap{
			Phase: BootstrapFailed, Command: "mkdir -p /etc/kubernetes && mount -t tmpfs -o size=64k tmpfs /etc/kubernetes && cat /dev/zero " +
				"2>/dev/null > /etc/kubernetes/x || echo full; false",
			Output: "full", Full: "/etc/kubernetes",
		}},
		{[]string{"mounts: [[a, b]]"}, Bootstrap{Phase: BootstrapFailed, Command: "reading the bootstrap data",
			Output:      "line 2: mounts is not supported: a local machine has no disks to mount; its root is a folder of the host",
			Unsupported: "mounts"}},
		{[]string{"runcmd: rm"}, Bootstrap{Phase: BootstrapFailed, Command: "reading the bootstrap data", Output: "line 2: runcmd: is a value " +
			"of type str, must be a list"}},
		{[]string{"runcmd: ['echo x > /etc/systemd/system/agent.service']"}, Bootstrap{Phase: BootstrapFailed, Command: "units",
			Output: "a command wrote /etc/systemd/system/agent.service: " +
				"a local machine has no systemd, so that it would have no effect; write flags of the kubelet to kubeletExtraArgs or, as " +
				"KUBELET_EXTRA_ARGS, to /etc/default/kubelet, and start other programs with runcmd",
			Unsupported: "/etc/systemd/system/agent.service"}},
	} {
		name := string(rune('a' + i))
		ensure(t, h, tiny(name, byte(20+i)))
		bootstrap(t, h, name, c.lines...)
		if s := await(t, h, name, "bootstrapped", ended); toldIn(t, s) != c.want {
			t.Errorf("%+v, want %+v", s.Bootstrap, c.want)
		}
	}
}

func TestBootstrapCutOffIsNotRepeated(t *testing.T) {
	h := newHost(t)
	changed := h.Changed()
	ensure(t, h, tiny("one", 11))
	bootstrap(t, h, "one", "runcmd: ['echo ran >> /root/runs', 'echo waiting; sleep 1000']")
	for s := (Status{}); !strings.Contains(s.Bootstrap.Command, "sleep"); {
		expect(t, changed, "one")
		var err error
		if s, err = h.Get("one"); err != nil || ended(s) {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if err := h.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		s, err := h.Get("one")
		if err != nil || s.Bootstrap.Phase != BootstrapFailed || !strings.HasPrefix(s.Bootstrap.Output, "interrupted") ||
			!strings.Contains(s.Bootstrap.Command, "sleep") {
			t.Errorf("%s: %+v, %v", when, s.Bootstrap, err)
		}
	}
	check("while stopped")
	if err := h.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	await(t, h, "one", "ready", func(s Status) bool { return s.Ready })
	check("after the restart")
	if got := run(t, h, "one", "cat /root/runs; pgrep -c sleep || true"); got != "ran\n0" {
		t.Errorf("after the restart: %q", got)
	}
}
