package steps

import "slices"

// Phases of kubeadm whose work a user may leave to others. An upgrade then leaves them out.
const (
	addonPhase = "addon"
	// DNSPhase is the one that installs CoreDNS, ProxyPhase that of kube-proxy.
	DNSPhase   = "addon/coredns"
	ProxyPhase = "addon/kube-proxy"
	tokenPhase = "bootstrap-token"
)

// LeftToOthers returns those of kubeadm's phases which others do the work of, sorted. It has, of those that kubeadm init leaves out the
// ones that an upgrade has too, and those of add-ons that the control plane leaves to others.
func LeftToOthers(skippedAtInit []string, proxy, dns bool) []string {
	var left []string
	for _, phase := range skippedAtInit {
		if slices.Contains([]string{addonPhase, DNSPhase, ProxyPhase, tokenPhase}, phase) {
			left = append(left, phase)
		}
	}
	if proxy {
		left = append(left, ProxyPhase)
	}
	if dns {
		left = append(left, DNSPhase)
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// OfOneNode reports whether a phase that is left to others is one of kubeadm's upgrade of a node. The others are once for the cluster.
func OfOneNode(phase string) bool { return phase != tokenPhase }

// requiresPhases is the requirement of an upgrade that leaves phases out.
const requiresPhases = "skip-phases"

// Requires are the names of what an upgrader must know for an upgrade. An upgrader ignores fields that it does not know: one of an earlier
// release would do what it was told to leave out.
func (w Wanted) Requires() []string {
	if len(w.SkipPhases) > 0 {
		return []string{requiresPhases}
	}
	return nil
}

// Unknown are those of some requirements that this release does not know.
func Unknown(requirements []string) []string {
	return slices.DeleteFunc(slices.Clone(requirements), func(name string) bool { return name == requiresPhases })
}
