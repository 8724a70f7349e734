package guest

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/atomicfile"
)

// masquerade gives packets of pods the machine's own address where nobody knows the way back to a pod: at the host, at
// endpoints on its bridge, and beyond. Between pods of machines of one cluster there are routes, and addresses stay.
const masquerade = `table ip quorate {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" ip saddr %[1]s ip daddr %[2]s masquerade
		oifname "eth0" ip saddr %[1]s rt ip nexthop %[3]s masquerade
	}
}
`

func (m *machine) masquerade() error {
	path := filepath.Join(runDir, "masquerade.nft")
	rules := fmt.Sprintf(masquerade, m.boot.PodCIDR, m.boot.Network, m.boot.Gateway)
	if err := atomicfile.Write(path, []byte(rules), 0o644); err != nil {
		return err
	}
	if out, err := m.output("nft", "-f", path); err != nil {
		return fmt.Errorf("giving pods a way out: %w: %s", err, strings.TrimSpace(out))
	}
	return nil
}
