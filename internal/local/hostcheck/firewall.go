package hostcheck

import (
	"os"
	"os/exec"
	"strings"
)

// Firewall is what of the host's firewall forwards packets of one family of addresses.
type Firewall struct {
	// Program lists and changes its rules: iptables or ip6tables.
	Program string
	// BridgeFilter is a file that holds 1 where packets between two ports of a bridge pass these rules.
	BridgeFilter string
	// family is what nft calls it.
	family string
}

// The host's firewalls. A host with Docker may drop what it does not know in both of them.
var (
	Firewall4 = Firewall{Program: "iptables", BridgeFilter: "/proc/sys/net/bridge/bridge-nf-call-iptables", family: "ip"}
	Firewall6 = Firewall{Program: "ip6tables", BridgeFilter: "/proc/sys/net/bridge/bridge-nf-call-ip6tables", family: "ip6"}
)

// Drops reports whether the firewall drops forwarded packets by default, and sees those between two machines on one bridge. Without its
// program nft answers.
func (f Firewall) Drops() bool {
	value, err := os.ReadFile(f.BridgeFilter)
	if err != nil || strings.TrimSpace(string(value)) != "1" {
		return false
	}
	if program, found := Find(f.Program); found {
		rules, err := exec.Command(program, "-w", "-S", "FORWARD").Output()
		return err == nil && strings.HasPrefix(string(rules), "-P FORWARD DROP")
	}
	nft, found := Find("nft")
	if !found {
		return false
	}
	chain, err := exec.Command(nft, "list", "chain", f.family, "filter", "FORWARD").Output()
	return err == nil && strings.Contains(string(chain), "policy drop")
}

// closed reports whether the firewall drops what machines send one another, and the program is missing by which that is allowed.
func (f Firewall) closed() bool {
	_, opens := Find(f.Program)
	return !opens && f.Drops()
}

// missingOpen returns what the host lacks so that packets pass between machines.
func (f Firewall) missingOpen() []Lack {
	if !f.closed() {
		return nil
	}
	what := "an open bridge"
	if f.family == Firewall6.family {
		what += " for IPv6"
	}
	return []Lack{{
		What: what,
		Why: "the firewall drops forwarded packets by default and sees those between machines on one bridge (Docker sets it up so), " +
			"and without " + f.Program + " they cannot be let through",
		Fix: "sysctl -w net.bridge." + f.BridgeFilter[strings.LastIndex(f.BridgeFilter, "/")+1:] + "=0, or install " + f.Program,
	}}
}
