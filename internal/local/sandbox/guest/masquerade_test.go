package guest

import "testing"

func TestMasqueradeRules(t *testing.T) {
	const want = `table ip quorate {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" ip saddr 10.244.0.0/24 ip daddr 172.30.0.0/16 masquerade
		oifname "eth0" ip saddr 10.244.0.0/24 rt ip nexthop 172.30.0.1 masquerade
	}
}
table ip6 quorate {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" ip6 saddr fd00:10:244::/64 ip6 daddr fd71:7175:ac1e::/96 masquerade
		oifname "eth0" ip6 saddr fd00:10:244::/64 rt ip6 nexthop fd71:7175:ac1e::1 masquerade
	}
}
`
	got := masqueradeRules([]Pods{
		{Range: "10.244.0.0/24", Network: "172.30.0.0/16", Gateway: "172.30.0.1"},
		{Range: "fd00:10:244::/64", Network: "fd71:7175:ac1e::/96", Gateway: "fd71:7175:ac1e::1"},
	})
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
