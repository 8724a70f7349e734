package etcd

import (
	"net/netip"
	"testing"
)

// TestPlaceholderIsOnNoHost: a placeholder is on no host, also where a host reports its loopback address.
func TestPlaceholderIsOnNoHost(t *testing.T) {
	m := Member{ID: 7, Learner: true, PeerURLs: []string{placeholderURL(0)}}
	hosts := []Host{{Name: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}
	if got := Match([]Member{m}, hosts, nil); len(got.Hosts) > 0 {
		t.Errorf("the placeholder is on %v", got.Hosts)
	}
}
