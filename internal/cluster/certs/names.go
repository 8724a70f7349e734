package certs

import (
	"cmp"
	"net/netip"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// kubeadm's defaults for a Cluster that says nothing.
const (
	defaultServices = "10.96.0.0/12"
	defaultDomain   = "cluster.local"
)

// apiServerNames are the names and addresses that the certificate of each API server of a cluster has, beside those of its machine:
// kubeadm's own, the endpoint's, and those that the configuration adds.
func apiServerNames(cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration) []string {
	domain := cmp.Or(cluster.Spec.ClusterNetwork.ServiceDomain, defaultDomain)
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain}
	services := defaultServices
	if given := cluster.Spec.ClusterNetwork.Services.CIDRBlocks; len(given) > 0 {
		services = given[0]
	}
	if p, err := netip.ParsePrefix(services); err == nil {
		names = append(names, p.Masked().Addr().Next().String()) // that of the service kubernetes
	}
	if host := cluster.Spec.ControlPlaneEndpoint.Host; host != "" {
		names = append(names, host)
	}
	if config != nil {
		names = append(names, config.APIServer.CertSANs...)
	}
	return names
}
