// Package hostcheck reports whether this host can carry machines, and if not, what it lacks, why that is needed, and how to
// get it. It looks at the host as it is; what it must try out, it tries in namespaces of its own that go when it is done.
//
// It knows what the local provider, kubeadm and the kubelet ask of a host. It installs nothing.
package hostcheck

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// A Lack is one thing that the host does not have.
type Lack struct {
	What string `json:"what"` // completes "this host lacks ..."
	Why  string `json:"why"`  // what needs it, a sentence without a full stop
	Fix  string `json:"fix"`  // what to do, an imperative without a full stop
}

// String is the lack in one line.
func (l Lack) String() string { return fmt.Sprintf("%s: %s; %s", l.What, l.Why, l.Fix) }

// Plan is what is going to be done on the host.
type Plan struct {
	State    string       // folder of the environment; machines' file systems lie there
	Cache    string       // folder of the artifacts
	Machines int          // how many, control plane and workers
	Build    bool         // artifacts are missing and must be built
	Network  netip.Prefix // of all machines; the zero value is not checked
	IPv6     bool         // machines have IPv6 addresses
	Bridge   string       // the environment's own, which may have the network already
}

const (
	gib = 1 << 30
	// diskNeeded is for three machines and their logs, or for one version's artifacts while they are built.
	diskNeeded = 8 * gib
	// A machine with a control plane takes 550 to 650 MB, the management plane 700 MB.
	memoryBase    = gib
	memoryMachine = gib
)

// Missing returns what the host lacks for any machine at all, the most basic first. Nothing is changed.
func Missing() []Lack {
	return judge(observe())
}

// Check returns all that the host lacks for a plan: what Missing returns, and room, memory, addresses and, where something
// must be built, Go.
func Check(p Plan) []Lack {
	lacks := Missing()
	folders := []string{p.State}
	if p.Build {
		folders = append(folders, p.Cache)
	}
	lacks = append(lacks, space(folders...)...)
	lacks = append(lacks, memory(p.Machines, available())...)
	if p.Network.IsValid() {
		lacks = append(lacks, network(p.Network, p.Bridge)...)
	}
	if p.IPv6 {
		lacks = append(lacks, missingIPv6(ipv6Disabled)...)
		lacks = append(lacks, Firewall6.missingOpen()...)
	}
	if p.State != "" && len(lacks) == 0 {
		lacks = append(lacks, overlay(p.State)...)
	}
	if p.Build {
		lacks = append(lacks, golang()...)
	}
	return lacks
}

func space(folders ...string) []Lack {
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		free, err := cache.Available(folder)
		if err != nil || free >= diskNeeded {
			continue // what cannot be read here fails later, where it is written
		}
		return []Lack{{
			What: fmt.Sprintf("disk space for %s (%s free of %s needed)", folder, cache.Bytes(free), cache.Bytes(diskNeeded)),
			Why:  "machines keep their file systems, images and logs there, and artifacts are built there",
			Fix:  "free some, or choose another file system with --state and QUORATE_CACHE",
		}}
	}
	return nil
}

// memory compares what machines need with what is available, in bytes; 0 is not known.
func memory(machines int, available uint64) []Lack {
	needed := uint64(memoryBase + max(machines, 0)*memoryMachine)
	if available == 0 || available >= needed {
		return nil
	}
	return []Lack{{
		What: fmt.Sprintf("memory (%s available, %s needed for %d machines)", cache.Bytes(available), cache.Bytes(needed), machines),
		Why:  "a machine with a control plane takes up to 650 MB, the management plane 700 MB, and both need some room",
		Fix:  "end other programs, or ask for fewer machines",
	}}
}

func network(prefix netip.Prefix, bridge string) []Lack {
	what, err := InUse(prefix, bridge)
	if err != nil {
		return []Lack{{What: "a readable routing table", Why: err.Error(), Fix: "see whether `ip route` works"}}
	}
	if what == "" {
		return nil
	}
	return []Lack{{
		What: "the free address range " + prefix.String(),
		Why:  what + ", and packets to machines would go there",
		Fix: "choose another range with --network, for example 10.213.0.0/16; quorate down --state FOLDER removes an environment that is " +
			"not needed",
	}}
}

// packages are what Missing asks for, program by program, with the Debian package that has it.
var packages = []struct{ program, name, why string }{
	{"runc", "runc", "containerd starts every container with it"},
	{"nft", "nftables", "kube-proxy makes Services reachable with it"},
	{"mount", "mount", "the kubelet mounts volumes with it, and kubeadm insists on it"},
	{"losetup", "mount", "kubeadm insists on it"},
	{"cp", "coreutils", "kubeadm insists on it"},
}

// Packages returns the Debian packages that have the programs which Missing asks for.
func Packages() []string {
	var names []string
	for _, p := range packages {
		if len(names) == 0 || names[len(names)-1] != p.name {
			names = append(names, p.name)
		}
	}
	return names
}

func install(names ...string) string {
	return "run hack/install-packages.sh, or apt-get install " + strings.Join(names, " ")
}
