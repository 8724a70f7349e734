package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
)

// Host is one environment of machines on this host. It holds no state of its own beside the state folder: any
// number of them, in several processes, may act at once.
type Host struct {
	state   string
	network netip.Prefix
	node    string

	watching sync.Once
	changes  *changes
}

// Open returns the environment of a state folder. It changes nothing on the host. The network is an IPv4 range of
// at least 256 addresses; nodeBinary is the path of quorate-node, which only the start of machines and Exec need.
func Open(state string, network netip.Prefix, nodeBinary string) (*Host, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("making the state folder %q absolute: %w", state, err)
	}
	if !network.IsValid() || !network.Addr().Is4() || network.Bits() > 24 || network.Bits() < 8 {
		return nil, fmt.Errorf("network %s: must be an IPv4 range from /8 to /24, such as 172.30.0.0/16", network)
	}
	return &Host{state: abs, network: network.Masked(), node: nodeBinary, changes: newChanges()}, nil
}

// ID is six hexadecimal digits that mark everything of this environment outside of its state folder.
func (h *Host) ID() string { return ID(h.state) }

// ID returns the environment id of an absolute state folder.
func ID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])[:6]
}

// Gateway is the host's own address on the bridge.
func (h *Host) Gateway() netip.Addr { return h.network.Addr().Next() }

// bridgePrefix begins the names of all environments' bridges.
const bridgePrefix = "qrt-"

// BridgeName is the name of the environment's bridge.
func (h *Host) BridgeName() string { return bridgePrefix + h.ID() }

// Logs returns the folder of a machine's logs: init.log, bootstrap.log, containerd.log, kubelet.log, each with
// at most one older part (.1).
func (h *Host) Logs(name string) string { return h.folder(name).logs() }

// Changed names machines whose state, readiness or bootstrap changed, by any process. Watching starts with the
// first call. There is one channel: one reader. Names may repeat; a change while there is no reader is reported later, never lost.
func (h *Host) Changed() <-chan string {
	h.watching.Do(func() { h.changes.begin(h) })
	return h.changes.names
}

func (h *Host) machines() string { return filepath.Join(h.state, "machines") }

func (h *Host) folder(name string) folder { return folder(filepath.Join(h.machines(), name)) }

// folder is where one machine lies on the host.
type folder string

func (f folder) record() string        { return filepath.Join(string(f), "machine.json") }
func (f folder) disk() string          { return filepath.Join(string(f), "disk") }
func (f folder) layers() string        { return filepath.Join(string(f), "layers") }
func (f folder) logs() string          { return filepath.Join(string(f), "logs") }
func (f folder) shared() string        { return filepath.Join(string(f), "bootstrap") }
func (f folder) in(name string) string { return filepath.Join(f.shared(), name) }
func (f folder) boot() string          { return f.in(guest.BootFile) }
