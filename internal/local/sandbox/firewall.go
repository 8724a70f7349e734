package sandbox

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/quorate/quorate/internal/local/hostcheck"
)

// firewalls are those of the host that packets between machines may meet: one for each family of addresses.
var firewalls = []hostcheck.Firewall{hostcheck.Firewall4, hostcheck.Firewall6}

// letThrough lets packets between machines pass a firewall that drops what it does not know, as that of a host with Docker does.
func letThrough(f hostcheck.Firewall, bridge string) error {
	program, found := hostcheck.Find(f.Program)
	if !found || !f.Drops() || forwards(program, "-C", bridge).Run() == nil {
		return nil
	}
	if out, err := forwards(program, "-I", bridge).CombinedOutput(); err != nil {
		return fmt.Errorf("letting packets between machines pass the host's firewall: %s: %w: %s", f.Program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// forwards returns the command that checks, inserts or deletes the rule of a bridge.
func forwards(program, do, bridge string) *exec.Cmd {
	return exec.Command(program, "-w", do, "FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT")
}

// forget removes the rules of letThrough.
func forget(f hostcheck.Firewall, bridge string) {
	program, found := hostcheck.Find(f.Program)
	if !found {
		return
	}
	// It fails as soon as there is no such rule.
	for forwards(program, "-D", bridge).Run() == nil {
		continue
	}
}
