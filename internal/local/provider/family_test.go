package provider

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// TestFamilies: the pod networks of a Cluster say which addresses its machines, their pods and its endpoint have, and which routes lead
// from pods to those of another machine.
func TestFamilies(t *testing.T) {
	for _, test := range []struct {
		name             string
		pods             []string
		endpoint, status string
		peers            map[string]string
	}{
		{"ipv4", []string{"10.244.0.0/16"}, "172.30.0.10:6443", "172.30.1.1 10.244.0.0/24", map[string]string{"10.244.1.0/24": "172.30.1.2"}},
		{"ipv6", []string{"fd00:10:244::/56"}, "[fd71:7175:ac1e::a]:6443", "fd71:7175:ac1e::101 fd00:10:244::/64",
			map[string]string{"fd00:10:244:1::/64": "fd71:7175:ac1e::102"}},
		{
			"dual", []string{"10.244.0.0/16", "fd00:10:244::/56"}, "172.30.0.10:6443", "172.30.1.1 fd71:7175:ac1e::101 10.244.0.0/24",
			map[string]string{"10.244.1.0/24": "172.30.1.2", "fd00:10:244:1::/64": "fd71:7175:ac1e::102"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, lc := aCluster("alpha")
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = test.pods
			s := newScene(t, c, lc)
			s.cluster("alpha")
			if listen := s.balancers.serving[keyOf("alpha")].Listen; listen != test.endpoint {
				t.Errorf("the endpoint is %s, want %s", listen, test.endpoint)
			}
			s = newScene(t, life("alpha", "a1", "a2")...)
			cluster := get[clusterv1.Cluster](s, "alpha")
			cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = test.pods
			if err := s.client.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			s.machine("a1")
			s.machine("a2")
			lm := s.machine("a1")
			var status string
			for _, a := range lm.Status.Addresses {
				if a.Type == clusterv1.MachineInternalIP {
					status += a.Address + " "
				}
			}
			if status += lm.Status.PodCIDR; status != test.status {
				t.Errorf("the status has %s, want %s", status, test.status)
			}
			peers := map[string]string{}
			for to, via := range s.host.peers["a1"] {
				peers[to.String()] = via.String()
			}
			if !maps.Equal(peers, test.peers) {
				t.Errorf("the peers are %v, want %v", peers, test.peers)
			}
		})
	}
}

// TestEndpointFamilies: an endpoint that a person chooses must be one that the machines reach.
func TestEndpointFamilies(t *testing.T) {
	four, six := "10.244.0.0/16", "fd00:10:244::/56"
	for _, test := range []struct {
		pods []string
		host string
		want string
	}{
		{[]string{four}, "fd00::1", "want an IPv4 address"}, {[]string{six}, "10.1.2.3", "want an IPv6 address"},
		{[]string{four}, "10.1.2.3", ""}, {[]string{six}, "fd00::1", ""}, {[]string{four, six}, "fd00::1", ""},
		{[]string{four, six}, "10.1.2.3", ""},
		{[]string{six}, "fe80::1", "want an IPv6 address"}, {[]string{six}, "::ffff:10.1.2.3", "want an IPv6 address"},
		{[]string{four, six}, "a", "want an IPv4 or IPv6 address"},
	} {
		c, lc := aCluster("alpha")
		c.Spec.ClusterNetwork.Pods.CIDRBlocks = test.pods
		lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: test.host}
		s := newScene(t, c, lc)
		want := "True EndpointServed"
		if test.want != "" {
			want = fmt.Sprintf("False EndpointInvalid host is %q, %s", test.host, test.want)
		}
		wantCondition(t, s.cluster("alpha"), clusterv1.ReadyCondition, want)
	}
	// The number of an IPv6 endpoint is not given to another.
	c, lc := aCluster("alpha")
	d, ld := aCluster("bravo")
	d.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{six}
	ld.Spec.ControlPlaneEndpoint.Host = "fd71:7175:ac1e::a"
	s := newScene(t, c, lc, d, ld)
	if a := netip.MustParseAddr(s.cluster("alpha").Spec.ControlPlaneEndpoint.Host); a.String() != "172.30.0.11" {
		t.Errorf("the endpoint is %s, want 172.30.0.11", a)
	}
}
