package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// bridgeFilter is 1 where packets between the ports of a bridge pass the host's firewall.
const bridgeFilter = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// letThrough lets packets between machines pass a firewall that drops what it does not know, as that of a
// host with Docker does.
func letThrough(bridge string) error {
	if !drops() {
		return nil
	}
	rule := throughRule(bridge)
	if exec.Command("iptables", append([]string{"-w", "-C", "FORWARD"}, rule...)...).Run() == nil {
		return nil
	}
	out, err := exec.Command("iptables", append([]string{"-w", "-I", "FORWARD"}, rule...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("letting packets between machines pass the host's firewall: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func throughRule(bridge string) []string {
	return []string{"-i", bridge, "-o", bridge, "-j", "ACCEPT"}
}

// drops tells whether the host's firewall drops forwarded packets by default, and sees those between machines.
func drops() bool {
	value, err := os.ReadFile(bridgeFilter)
	if err != nil || strings.TrimSpace(string(value)) != "1" {
		return false
	}
	out, err := exec.Command("iptables", "-w", "-S", "FORWARD").Output()
	return err == nil && strings.HasPrefix(string(out), "-P FORWARD DROP")
}

// forget removes the rule of letThrough.
func forget(bridge string) {
	if _, err := exec.LookPath("iptables"); err != nil {
		return
	}
	check := append([]string{"-w", "-D", "FORWARD"}, throughRule(bridge)...)
	// It fails as soon as there is no such rule.
	for exec.Command("iptables", check...).Run() == nil {
		continue
	}
}
