package guest

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// masquerade gives packets of pods the machine's own address where there is no route back to a pod: at the host, at
// endpoints on its bridge, and beyond. Between pods of machines of one cluster there are routes, and addresses stay.
const masquerade = `table %[4]s quorate {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" %[4]s saddr %[1]s %[4]s daddr %[2]s masquerade
		oifname "eth0" %[4]s saddr %[1]s rt %[4]s nexthop %[3]s masquerade
	}
}
`

// masqueradeRules are the rules of all families.
func masqueradeRules(all []Pods) string {
	var b strings.Builder
	for _, p := range all {
		family := "ip"
		if strings.Contains(p.Range, ":") {
			family = "ip6"
		}
		fmt.Fprintf(&b, masquerade, p.Range, p.Network, p.Gateway, family)
	}
	return b.String()
}

func (m *machine) masquerade() error {
	path := filepath.Join(runDir, "masquerade.nft")
	if err := atomicfile.Write(path, []byte(masqueradeRules(m.boot.Pods)), 0o644); err != nil {
		return err
	}
	if out, err := m.output("nft", "-f", path); err != nil {
		return fmt.Errorf("giving pods a way out: %w: %s", err, strings.TrimSpace(out))
	}
	return nil
}
