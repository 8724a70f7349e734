package provider

import (
	"net/netip"
	"strings"
	"testing"
)

func TestFreeAddresses(t *testing.T) {
	small := netip.MustParsePrefix("10.9.0.0/23") // machines from 10.9.1.1 to 10.9.1.254
	all := func(from, to int) map[netip.Addr]bool {
		used := map[netip.Addr]bool{}
		for n := from; n <= to; n++ {
			a, _ := at(small, n)
			used[a] = true
		}
		return used
	}
	for _, test := range []struct {
		name string
		used map[netip.Addr]bool
		last string
		want string
	}{
		{"the first", nil, "", "10.9.1.1"},
		{"after the last", nil, "10.9.1.7", "10.9.1.8"},
		{"after the last, over used ones", all(257, 270), "10.9.1.2", "10.9.1.15"},
		{"from the start again", nil, "10.9.1.254", "10.9.1.1"},
		{"from the start, over used ones", all(257, 300), "10.9.1.254", "10.9.1.45"},
		{"the last is an endpoint's", nil, "10.9.0.10", "10.9.1.1"},
		{"none", all(257, 510), "10.9.1.3", ""},
	} {
		last, _ := netip.ParseAddr(test.last)
		got, err := freeMachine(small, test.used, last)
		if test.want == "" {
			if err == nil || !strings.Contains(err.Error(), "10.9.0.0/23 are in use") {
				t.Errorf("%s: %v, %v, want an error", test.name, got, err)
			}
			continue
		}
		if err != nil || got.String() != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, got, err, test.want)
		}
	}
	if got, err := freeEndpoint(small, all(10, 11)); err != nil || got.String() != "10.9.0.12" {
		t.Errorf("endpoint %v, %v, want 10.9.0.12", got, err)
	}
	if got, err := freeEndpoint(small, all(10, 250)); err == nil {
		t.Errorf("endpoint %v of a range that is used up", got)
	}
}

func TestPodRanges(t *testing.T) {
	for _, test := range []struct {
		ranges, want string
	}{
		{"", "10.244.0.0/16"},
		{"192.168.0.0/20", "192.168.0.0/20"},
		{"fd00::/48 10.1.2.3/16", "10.1.0.0/16 fd00::/48"},
		{"10.1.2.3/16 fd00:1::/56 fd00:2::/56 10.2.0.0/16", "10.1.0.0/16 fd00:1::/56"},
		{"10.0.0.0/22 fd00::/62", "10.0.0.0/22 fd00::/62"},
		{"10.0.0.0/22 fd00::/63", "error has fd00::/63, want a range of at least /62: each machine gets a /64"},
		{"fd00::/57", "error has fd00::/57, want a range of at least /56"},
		{"10.0.0.0/24", "10.0.0.0/24"},
		{"10.0.0.0/25", "error want a range of at least /24"},
		{"fd00::/48", "fd00::/48"},
		{"all", `error has "all", want an address range`},
	} {
		got, err := podNetwork(strings.Fields(test.ranges))
		if want, failing := strings.CutPrefix(test.want, "error "); failing {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", test.ranges, err, want)
			}
			continue
		}
		var has []string
		for _, p := range []netip.Prefix{got.v4, got.v6} {
			if p.IsValid() {
				has = append(has, p.String())
			}
		}
		if text := strings.Join(has, " "); err != nil || text != test.want || got.v6Only() != !strings.Contains(text, ".") {
			t.Errorf("%q: %q, %v, want %s", test.ranges, text, err, test.want)
		}
	}
	four := netip.MustParsePrefix("10.1.0.0/22")
	used := map[netip.Prefix]bool{netip.MustParsePrefix("10.1.1.0/24"): true, netip.MustParsePrefix("10.1.3.0/24"): true}
	for last, want := range map[string]string{"": "10.1.0.0/24", "10.1.0.0/24": "10.1.2.0/24", "10.1.2.0/24": "10.1.0.0/24",
		"10.1.3.0/24": "10.1.0.0/24"} {
		p, _ := netip.ParsePrefix(last)
		if got, err := freePods(four, used, p); err != nil || got.String() != want {
			t.Errorf("after %q: %v, %v, want %s", last, got, err, want)
		}
	}
	used[netip.MustParsePrefix("10.1.0.0/24")], used[netip.MustParsePrefix("10.1.2.0/24")] = true, true
	if got, err := freePods(four, used, netip.Prefix{}); err == nil {
		t.Errorf("%v of a network that is used up", got)
	}
}

// TestPart6: a machine has the part of the IPv6 range with the number of its part of the IPv4 range, or of the default without one.
func TestPart6(t *testing.T) {
	for _, test := range []struct{ ranges, part, want string }{
		{"10.1.0.0/16 fd00:1::/56", "10.1.0.0/24", "fd00:1::/64"},
		{"10.1.0.0/16 fd00:1::/56", "10.1.255.0/24", "fd00:1:0:ff::/64"},
		{"10.0.0.0/22 fd00:0:0:fc::/62", "10.0.3.0/24", "fd00:0:0:ff::/64"},
		{"fd00:10:244::/56", "10.244.7.0/24", "fd00:10:244:7::/64"},
		{"fd00:10:244::/56", "fd00:10:244:7::/64", "invalid Prefix"},
		{"10.1.0.0/16", "10.1.0.0/24", "invalid Prefix"},
	} {
		p, err := podNetwork(strings.Fields(test.ranges))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.part6(netip.MustParsePrefix(test.part)); got.String() != test.want {
			t.Errorf("%s, %s: %s, want %s", test.ranges, test.part, got, test.want)
		}
	}
}
