package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// Environment is what stays the same for the life of a state folder, and what the daemon was last started with. It is
// kept in environment.json.
type Environment struct {
	// Network is the range of addresses of endpoints and machines. It never changes.
	Network netip.Prefix `json:"network"`
	// Kubernetes is the version of the management plane, "v1.36.3". It never changes.
	Kubernetes string `json:"kubernetes"`
	// Ports are those of the management plane, chosen once.
	Ports Ports `json:"ports"`
	// Artifacts are those of the management plane's version.
	Artifacts artifacts.Set `json:"artifacts"`
	// Cache and Prebuilt are where artifacts of other versions are found or built; see artifacts.Options.
	Cache    string `json:"cache,omitempty"`
	Prebuilt string `json:"prebuilt,omitempty"`
	// NodeBinary is the path of quorate-node.
	NodeBinary string `json:"nodeBinary,omitempty"`
	// RuntimeExtensions has Cluster API's controllers call Runtime Extensions, of which Quorate is one, and update machines in place by them.
	RuntimeExtensions bool `json:"runtimeExtensions,omitempty"`
	// FeatureGates are those of Cluster API that were chosen.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// ManagementCluster is the cluster that keeps the Clusters in place of the management plane; nil: none does.
	ManagementCluster *ManagementCluster `json:"managementCluster,omitempty"`
}

// runtimeExtensionsVariable is the environment variable that turns Runtime Extensions on (true) or off. Unset: they stay as they are.
const runtimeExtensionsVariable = "QUORATE_RUNTIME_EXTENSIONS"

// upgraderBinary is the path of quorate-upgrader, which is installed beside quorate-node.
func (e Environment) upgraderBinary() string {
	return filepath.Join(filepath.Dir(e.NodeBinary), "quorate-upgrader")
}

// DefaultNetwork is the range of an environment whose user chose none.
var DefaultNetwork = netip.MustParsePrefix("172.30.0.0/16")

// BridgeName is the name of the bridge that the machines of a state folder's environment have.
func BridgeName(state string) string { return "qrt-" + sandbox.ID(state) }

const environmentFile = "environment.json"

// Load reads the environment of a state folder. The error is fs.ErrNotExist when there is none.
func Load(state string) (Environment, error) {
	path := filepath.Join(state, environmentFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Environment{}, fmt.Errorf("reading the environment: %w", err)
	}
	var e Environment
	if err := json.Unmarshal(data, &e); err != nil {
		return Environment{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return e, nil
}

// Save writes the environment of a state folder, whole or not at all.
func (e Environment) Save(state string) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the environment: %w", err)
	}
	return atomicfile.Write(filepath.Join(state, environmentFile), append(data, '\n'), 0o600)
}

// merge returns the environment with what this start brings: nothing that never changes, all that may.
func (e Environment) merge(o Options) (Environment, error) {
	if o.Network.IsValid() && o.Network.Masked() != e.Network {
		return e, fmt.Errorf("network %s: the environment in %s has %s; leave --network out, or take the environment down first", o.Network,
			o.State, e.Network)
	}
	if value, set := os.LookupEnv(runtimeExtensionsVariable); set {
		e.RuntimeExtensions = value == "true"
	}
	if o.FeatureGates != nil {
		e.FeatureGates = o.FeatureGates
	}
	cache := cmp.Or(o.Artifacts.Cache, os.Getenv("QUORATE_CACHE"))
	prebuilt := cmp.Or(o.Artifacts.Prebuilt, os.Getenv("QUORATE_ARTIFACTS"))
	for _, f := range []struct {
		to   *string
		from string
	}{{&e.Cache, cache}, {&e.Prebuilt, prebuilt}, {&e.NodeBinary, o.NodeBinary}} {
		if f.from == "" {
			continue
		}
		abs, err := filepath.Abs(f.from)
		if err != nil {
			return e, fmt.Errorf("making %q absolute: %w", f.from, err)
		}
		*f.to = abs
	}
	if e.Cache == "" {
		// The daemon may have another home than who starts it.
		folder, err := o.Artifacts.CacheFolder()
		if err != nil {
			return e, err
		}
		e.Cache = folder
	}
	return e, nil
}

// newEnvironment makes the environment of a state folder that has none yet, and changes nothing.
func newEnvironment(o Options) (Environment, error) {
	e := Environment{Network: o.Network.Masked(), Kubernetes: o.Kubernetes}
	if !o.Network.IsValid() {
		e.Network = DefaultNetwork
	}
	if err := checkNetwork(e.Network, sandbox.ID(o.State)); err != nil {
		return Environment{}, err
	}
	versions := o.Artifacts.Versions()
	if e.Kubernetes == "" {
		e.Kubernetes = artifacts.DefaultVersion
	}
	if !slices.Contains(versions, e.Kubernetes) {
		return Environment{}, fmt.Errorf("kubernetes version %q: there are %s", e.Kubernetes, strings.Join(versions, ", "))
	}
	var err error
	if e.Ports, err = choosePorts(); err != nil {
		return Environment{}, err
	}
	return e.merge(o)
}

// checkNetwork reports whether a range can serve the environment with an id: it holds 250 endpoints and some hundreds of
// machines, and no other link of the host has an address in it.
func checkNetwork(network netip.Prefix, id string) error {
	if !network.Addr().Is4() || network.Bits() > 22 || network.Bits() < 8 {
		return fmt.Errorf("network %s: an IPv4 range from /8 to /22 is needed, for example %s", network, DefaultNetwork)
	}
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing the host's links: %w", err)
	}
	for _, link := range links {
		if strings.HasSuffix(link.Name, "-"+id) {
			continue
		}
		if used, ok := overlap(link, network); ok {
			return fmt.Errorf("network %s: link %s of this host has %s in it; choose another range with --network", network, link.Name, used)
		}
	}
	return nil
}

// overlap finds a range of a link's addresses that overlaps the network.
func overlap(link net.Interface, network netip.Prefix) (netip.Prefix, bool) {
	addresses, err := link.Addrs()
	if err != nil {
		// The link went away while they were listed.
		return netip.Prefix{}, false
	}
	for _, a := range addresses {
		used, err := netip.ParsePrefix(a.String())
		if err == nil && used.Overlaps(network) {
			return used, true
		}
	}
	return netip.Prefix{}, false
}

// Used returns the artifacts that an environment was made with: those of its management plane, and of each machine, whether it
// runs or not. A state folder that is half gone, or none, has those that are left.
func Used(state string) ([]artifacts.Set, error) {
	var used []artifacts.Set
	e, err := Load(state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Network = DefaultNetwork
	case err != nil:
		return nil, err
	default:
		used = append(used, e.Artifacts)
		if e.ManagementCluster != nil {
			used = append(used, artifacts.Set{Kubernetes: e.Kubernetes, Images: e.ManagementCluster.Images})
		}
	}
	host, err := sandbox.Open(state, e.Network, e.NodeBinary)
	if err != nil {
		return nil, err
	}
	machines, err := host.List()
	if err != nil {
		return nil, fmt.Errorf("listing the machines of %s: %w", state, err)
	}
	for _, m := range machines {
		used = append(used, m.Artifacts)
	}
	return used, nil
}

// Made returns the sets that an environment was made with, as far as they can be found out, its management plane's first: their
// versions stay usable for it when this program pins others.
func Made(state string) []artifacts.Set {
	used, err := Used(state)
	if err == nil {
		return used
	}
	if e, err := Load(state); err == nil {
		return []artifacts.Set{e.Artifacts}
	}
	return nil
}

// complete reports whether all that the management plane is made of is there.
func (e Environment) complete() bool {
	for _, folder := range []string{e.Artifacts.Management, e.Artifacts.CRDs} {
		if _, err := os.Stat(folder); folder == "" || err != nil {
			return false
		}
	}
	return true
}
