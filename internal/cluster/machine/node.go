package machine

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NodeLabel is on the Node of every control plane that kubeadm made.
const NodeLabel = "node-role.kubernetes.io/control-plane"

// Nodes finds each Machine's Node, by the name of the Machine: by the reference on the Machine,
// else by provider ID, else by a name or an address that the infrastructure gave the
// Machine. Waiting for the reference alone would cost the time that the core
// controllers need to set it. A Node is no two Machines'.
func Nodes(machines []*clusterv1.Machine, nodes []corev1.Node) map[string]*corev1.Node {
	found := map[string]*corev1.Node{}
	taken := map[string]bool{}
	for _, same := range []func(*clusterv1.Machine, *corev1.Node) bool{byReference, byProviderID, byName, byAddress} {
		for _, m := range machines {
			if found[m.Name] != nil {
				continue
			}
			for i := range nodes {
				if node := &nodes[i]; !taken[node.Name] && same(m, node) {
					found[m.Name], taken[node.Name] = node, true
					break
				}
			}
		}
	}
	return found
}

func byReference(m *clusterv1.Machine, node *corev1.Node) bool {
	return m.Status.NodeRef.Name == node.Name
}

func byProviderID(m *clusterv1.Machine, node *corev1.Node) bool {
	return m.Status.NodeRef.Name == "" && m.Spec.ProviderID != "" && m.Spec.ProviderID == node.Spec.ProviderID
}

func byName(m *clusterv1.Machine, node *corev1.Node) bool {
	if m.Status.NodeRef.Name != "" || contradict(m, node) {
		return false
	}
	return m.Name == node.Name || slices.Contains(HostNames(m), node.Name)
}

func byAddress(m *clusterv1.Machine, node *corev1.Node) bool {
	if m.Status.NodeRef.Name != "" || contradict(m, node) {
		return false
	}
	at, err := netip.ParseAddr(NodeIP(node))
	return err == nil && slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool {
		has, err := netip.ParseAddr(a.Address)
		return a.Type == clusterv1.MachineInternalIP && err == nil && has.Unmap() == at.Unmap()
	})
}

// contradict reports whether both name a provider ID and these differ: then a
// name or an address that agrees is left from an earlier machine.
func contradict(m *clusterv1.Machine, node *corev1.Node) bool {
	return m.Spec.ProviderID != "" && node.Spec.ProviderID != "" && m.Spec.ProviderID != node.Spec.ProviderID
}

// NodeIP returns the Node's first internal address; empty when it has none.
func NodeIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// HostNames are the host names that the infrastructure gave the Machine.
func HostNames(m *clusterv1.Machine) []string {
	var names []string
	for _, a := range m.Status.Addresses {
		if a.Type == clusterv1.MachineHostName || a.Type == clusterv1.MachineInternalDNS {
			names = append(names, a.Address)
		}
	}
	return names
}

// Addresses are the first internal ones of the Machine and of its Node, as far as they are known; node may be nil.
func Addresses(m *clusterv1.Machine, node *corev1.Node) []netip.Addr {
	texts := []string{InternalIP(m)}
	if node != nil {
		texts = append(texts, NodeIP(node))
	}
	var all []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// NodeReady returns the Node's own Ready condition; empty before it was ever set.
func NodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// FindPod returns the static pod of that name; nil if there is none.
func FindPod(pods []corev1.Pod, name string) *corev1.Pod {
	for i := range pods {
		if pods[i].Name == name {
			return &pods[i]
		}
	}
	return nil
}
