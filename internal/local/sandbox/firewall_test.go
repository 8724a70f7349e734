package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/quorate/quorate/internal/local/hostcheck"
)

// tables stands for iptables and ip6tables: a chain FORWARD that drops, in which one rule may be.
const tables = `#!/bin/sh
rule="$0.rule"
case "$2" in
-S) echo "-P FORWARD DROP" ;;
-C) [ -f "$rule" ] ;;
-I) echo "$*" >"$rule" ;;
-D) rm "$rule" 2>/dev/null ;;
esac
`

// bothFirewalls are those of the two families.
var bothFirewalls = []hostcheck.Firewall{hostcheck.Firewall4, hostcheck.Firewall6}

// TestLetThrough: the rule of a bridge comes into the firewall of each family that drops, and goes again.
func TestLetThrough(t *testing.T) {
	programs := t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	seen, unseen := filepath.Join(t.TempDir(), "seen"), filepath.Join(t.TempDir(), "unseen")
	write := func(file, content string) {
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(seen, "1\n")
	write(unseen, "0\n")
	if !slices.Equal(firewalls, bothFirewalls) {
		t.Errorf("the firewalls are %+v, want %+v", firewalls, bothFirewalls)
	}
	for _, f := range bothFirewalls {
		program := filepath.Join(programs, f.Program)
		write(program, tables)
		rule := func() string { text, _ := os.ReadFile(program + ".rule"); return strings.TrimSpace(string(text)) }
		f.BridgeFilter = unseen
		if err := letThrough(f, "q1"); err != nil || rule() != "" {
			t.Errorf("%s: the firewall does not see packets on bridges: %v, rule %q", f.Program, err, rule())
		}
		f.BridgeFilter = seen
		if err := letThrough(f, "q1"); err != nil || rule() != "-w -I FORWARD -i q1 -o q1 -j ACCEPT" {
			t.Errorf("%s: %v, rule %q", f.Program, err, rule())
		}
		if forget(f, "q1"); rule() != "" {
			t.Errorf("%s: %q stays", f.Program, rule())
		}
		write(program, "#!/bin/sh\nif [ $2 = -S ]; then echo -P FORWARD DROP; else echo no right; exit 4; fi\n")
		if err := letThrough(f, "q1"); err == nil || !strings.Contains(err.Error(), f.Program+": exit status 4: no right") {
			t.Errorf("%s fails, and it is told: %v", f.Program, err)
		}
	}
}

// TestFirewallsOfBridge: the bridge of an environment is open in the kernel's own firewalls of both families, and nothing stays when it is
// taken down.
func TestFirewallsOfBridge(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a network of its own needs root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and its network with it
	made, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	for _, f := range bothFirewalls {
		program, found := hostcheck.Find(f.Program)
		if _, err := os.Stat(f.BridgeFilter); err != nil || !found {
			t.Skipf("this host has no %s, or its kernel no firewall for bridges", f.Program)
		}
		if out, err := exec.Command(program, "-w", "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	h, err := Open(t.TempDir(), testNetwork, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.EnsureNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rules := func(f hostcheck.Firewall) string {
		program, _ := hostcheck.Find(f.Program)
		out, err := exec.Command(program, "-w", "-S", "FORWARD").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, f := range bothFirewalls {
		if got, want := rules(f), "-P FORWARD DROP\n-A FORWARD -i "+h.BridgeName()+" -o "+h.BridgeName()+" -j ACCEPT\n"; got != want {
			t.Errorf("%s: %q, want %q", f.Program, got, want)
		}
	}
	if err := h.removeLinks(); err != nil {
		t.Fatal(err)
	}
	for _, f := range bothFirewalls {
		if got := rules(f); got != "-P FORWARD DROP\n" {
			t.Errorf("%s: %q stays", f.Program, got)
		}
	}
}
