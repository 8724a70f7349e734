package sandbox

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddress6(t *testing.T) {
	network := netip.MustParsePrefix("172.30.5.6/16")
	if got, want := Network6(network).String(), "fd71:7175:ac1e::/96"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for a, want := range map[string]string{"172.30.0.1": "fd71:7175:ac1e::1", "172.30.1.1": "fd71:7175:ac1e::101",
		"172.30.255.254": "fd71:7175:ac1e::fffe"} {
		if got := Address6(network, netip.MustParseAddr(a)).String(); got != want {
			t.Errorf("%s: %s, want %s", a, got, want)
		}
	}
	if Network6(netip.MustParsePrefix("10.0.0.0/8")).Overlaps(Network6(netip.MustParsePrefix("172.30.0.0/16"))) {
		t.Error("two environments share an IPv6 network")
	}
}

// families are the same machine with IPv4 alone, IPv6 alone, and both.
func families() map[string]Spec {
	four := Spec{Name: "one", Address: netip.MustParseAddr("172.30.1.1"), PodCIDR: netip.MustParsePrefix("10.244.0.0/24")}
	both := four
	both.Address6, both.PodCIDR6 = netip.MustParseAddr("fd71:7175:ac1e::101"), netip.MustParsePrefix("fd00:10:244::/64")
	six := both
	six.IPv6Only = true
	return map[string]Spec{"ipv4": four, "ipv6": six, "dual": both}
}

// TestFamilies: a machine has addresses, names, a default route for its pods and a kubelet of its families, and of no other.
func TestFamilies(t *testing.T) {
	for family, want := range map[string]struct{ addresses, cni, kubelet string }{
		"ipv4": {"172.30.1.1", `"ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]`, ""},
		"ipv6": {"fd71:7175:ac1e::101", `"ranges": [[{"subnet": "fd00:10:244::/64"}]], "routes": [{"dst": "::/0"}]`,
			"KUBELET_EXTRA_ARGS=--node-ip=fd71:7175:ac1e::101\n"},
		"dual": {
			"172.30.1.1 fd71:7175:ac1e::101",
			`"ranges": [[{"subnet": "10.244.0.0/24"}], [{"subnet": "fd00:10:244::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]`,
			"KUBELET_EXTRA_ARGS=--node-ip=172.30.1.1,fd71:7175:ac1e::101\n",
		},
	} {
		t.Run(family, func(t *testing.T) {
			s := families()[family]
			var hosts []string
			for _, a := range s.Addresses() {
				hosts = append(hosts, a.String())
				if !strings.Contains(s.hosts(), "\n"+a.String()+" one\n") {
					t.Errorf("the hosts %q lack %s", s.hosts(), a)
				}
			}
			if got := strings.Join(hosts, " "); got != want.addresses || strings.Count(s.hosts(), " one\n") != len(hosts) {
				t.Errorf("addresses %s, hosts %q, want %s", got, s.hosts(), want.addresses)
			}
			if got := s.cni(); !strings.Contains(got, want.cni) {
				t.Errorf("%s, want %s", got, want.cni)
			}
			if got := s.kubeletArguments(); got != want.kubelet {
				t.Errorf("%q, want %q", got, want.kubelet)
			}
		})
	}
}

func TestCheck6(t *testing.T) {
	h, err := Open(t.TempDir(), netip.MustParsePrefix("172.30.0.0/16"), "")
	if err != nil {
		t.Fatal(err)
	}
	for family, s := range families() {
		if err := h.check(s); err != nil {
			t.Errorf("%s: %v", family, err)
		}
	}
	for want, spoil := range map[string]func(*Spec){
		"address6: must be given":                func(s *Spec) { s.Address6 = netip.Addr{} },
		"must be fd71:7175:ac1e::101":            func(s *Spec) { s.Address6 = s.Address6.Next() },
		"must be an IPv6 range outside of fd71:": func(s *Spec) { s.PodCIDR6 = netip.MustParsePrefix("fd71:7175:ac1e::/64") },
		"pod range 10.1.0.0/24":                  func(s *Spec) { s.PodCIDR6 = netip.MustParsePrefix("10.1.0.0/24") },
	} {
		s := families()["ipv6"]
		spoil(&s)
		if err := h.check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
