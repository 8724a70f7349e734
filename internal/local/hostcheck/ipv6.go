package hostcheck

import (
	"os"
	"strings"
)

// ipv6Disabled is 1 where new interfaces have no IPv6. It does not exist where the kernel has none at all.
const ipv6Disabled = "/proc/sys/net/ipv6/conf/default/disable_ipv6"

// HasIPv6 reports whether the host can have IPv6 addresses on interfaces that are made now.
func HasIPv6() bool { return len(missingIPv6(ipv6Disabled)) == 0 }

// missingIPv6 returns what the host lacks for machines with IPv6 addresses, by the file that reports whether IPv6 is disabled.
func missingIPv6(file string) []Lack {
	value, err := os.ReadFile(file)
	const why = "--ip-family ipv6 and dual give machines IPv6 addresses"
	switch {
	case err != nil:
		return []Lack{{What: "IPv6 in the kernel", Why: why,
			Fix: "boot without ipv6.disable=1 and load the module ipv6, or use --ip-family ipv4"}}
	case strings.TrimSpace(string(value)) != "0":
		return []Lack{{What: "IPv6 on new interfaces", Why: why, Fix: "sysctl -w net.ipv6.conf.default.disable_ipv6=0, or use --ip-family ipv4"}}
	}
	return nil
}
