package manifest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestIPFamily: a cluster of a family has networks of it, which tell the family again.
func TestIPFamily(t *testing.T) {
	for family, want := range map[IPFamily]string{
		"": "10.244.0.0/16 10.96.0.0/12", IPv4: "10.244.0.0/16 10.96.0.0/12", IPv6: "fd00:10:244::/56 fd00:10:96::/112",
		Dual: "10.244.0.0/16 fd00:10:244::/56 10.96.0.0/12 fd00:10:96::/112",
	} {
		c := demo()
		c.IPFamily = family
		network := c.cluster().Spec.ClusterNetwork
		if got := strings.Join(append(network.Pods.CIDRBlocks, network.Services.CIDRBlocks...), " "); got != want {
			t.Errorf("%q: %s, want %s", family, got, want)
		}
		o, err := Generic(c.Documents()[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := familyOf(o); got != family && (family != "" || got != IPv4) {
			t.Errorf("%q: the Cluster has %q", family, got)
		}
	}
}

func TestCheckIPFamily(t *testing.T) {
	for family, want := range map[IPFamily]string{IPv4: "", IPv6: "", Dual: "",
		"IPv6": `invalid --ip-family "IPv6": must be ipv4, ipv6 or dual`, "x": `invalid --ip-family "x": must be ipv4, ipv6 or dual`} {
		c := demo()
		c.IPFamily = family
		expectError(t, c.Check([]string{c.Version}), want)
	}
	const refused = "EtcdCluster demo-etcd: etcdadm cannot use IPv6 addresses: spec.clusterNetwork.pods of Cluster demo must have an " +
		"IPv4 range"
	for family, want := range map[IPFamily]string{IPv4: "", Dual: "", IPv6: refused} {
		c := demo()
		c.IPFamily, c.Etcd = family, 3
		var objects []*unstructured.Unstructured
		for _, d := range c.Documents() {
			o, err := Generic(d)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, o)
		}
		expectError(t, CheckObjects(objects, []string{c.Version}, func(Reference) (bool, error) { return true, nil }), want)
		if got := HasIPv6(objects); got != family.HasIPv6() {
			t.Errorf("%s: IPv6 %t", family, got)
		}
	}
	c := demo()
	c.IPFamily, c.Etcd = IPv6, 3
	expectError(t, c.Check([]string{c.Version}), "--etcd cannot be combined with --ip-family ipv6")
	c.IPFamily = Dual
	expectError(t, c.Check([]string{c.Version}), "")
}
