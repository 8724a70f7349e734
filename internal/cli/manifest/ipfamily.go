package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// IPFamily is which addresses the machines, pods and Services of a cluster have.
type IPFamily string

// The families.
const (
	// IPv4: IPv4 addresses alone.
	IPv4 IPFamily = "ipv4"
	// IPv6: IPv6 addresses alone.
	IPv6 IPFamily = "ipv6"
	// Dual: addresses of both, IPv4 first.
	Dual IPFamily = "dual"
)

// IPFamilies are what --ip-family can be.
func IPFamilies() []string { return []string{string(IPv4), string(IPv6), string(Dual)} }

// HasIPv6 reports whether machines have IPv6 addresses.
func (f IPFamily) HasIPv6() bool { return f == IPv6 || f == Dual }

// The networks inside every cluster. Clusters do not see each other's, so all have the same.
const (
	podNetwork      = "10.244.0.0/16"
	serviceNetwork  = "10.96.0.0/12"
	podNetwork6     = "fd00:10:244::/56"
	serviceNetwork6 = "fd00:10:96::/112"
)

// networks are the networks inside a cluster of a family.
func (f IPFamily) networks() clusterv1.ClusterNetwork {
	pods, services := []string{podNetwork}, []string{serviceNetwork}
	switch f {
	case IPv6:
		pods, services = []string{podNetwork6}, []string{serviceNetwork6}
	case Dual:
		pods, services = append(pods, podNetwork6), append(services, serviceNetwork6)
	}
	return clusterv1.ClusterNetwork{Pods: clusterv1.NetworkRanges{CIDRBlocks: pods}, Services: clusterv1.NetworkRanges{CIDRBlocks: services}}
}

func checkIPFamily(f IPFamily) error {
	if f == "" || slices.Contains(IPFamilies(), string(f)) {
		return nil
	}
	return fmt.Errorf("invalid --ip-family %q: must be ipv4, ipv6 or dual", f)
}

// checkFamilyOfEtcd refuses etcd on machines of its own without IPv4: etcdadm writes IPv6 addresses into URLs without brackets.
func (c Cluster) checkFamilyOfEtcd() error {
	if c.Etcd > 0 && c.IPFamily == IPv6 {
		return errors.New("--etcd cannot be combined with --ip-family ipv6: etcdadm cannot use IPv6 addresses; use --ip-family dual")
	}
	return nil
}

// familiesOf returns the families of the Clusters among objects.
func familiesOf(objects []*unstructured.Unstructured) map[client.ObjectKey]IPFamily {
	families := map[client.ObjectKey]IPFamily{}
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}) {
			families[client.ObjectKey{Namespace: namespace(o), Name: o.GetName()}] = familyOf(o)
		}
	}
	return families
}

// HasIPv6 reports whether machines of a Cluster among objects have IPv6 addresses.
func HasIPv6(objects []*unstructured.Unstructured) bool {
	for _, family := range familiesOf(objects) {
		if family.HasIPv6() {
			return true
		}
	}
	return false
}

// checkFamiliesOfEtcd refuses an EtcdCluster of a Cluster without IPv4 among objects, for the same reason as checkFamilyOfEtcd.
func checkFamiliesOfEtcd(objects []*unstructured.Unstructured) error {
	families := familiesOf(objects)
	for _, o := range objects {
		cluster := client.ObjectKey{Namespace: namespace(o), Name: o.GetLabels()[clusterv1.ClusterNameLabel]}
		if o.GroupVersionKind().GroupKind() == etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster").GroupKind() && families[cluster] == IPv6 {
			return fmt.Errorf("EtcdCluster %s: etcdadm cannot use IPv6 addresses: spec.clusterNetwork.pods of Cluster %s must have an IPv4 range",
				o.GetName(), cluster.Name)
		}
	}
	return nil
}

// familyOf returns the family of a Cluster, by the networks of its pods.
func familyOf(cluster *unstructured.Unstructured) IPFamily {
	blocks, _, _ := unstructured.NestedStringSlice(cluster.Object, "spec", "clusterNetwork", "pods", "cidrBlocks")
	has4, has6 := len(blocks) == 0, false
	for _, b := range blocks {
		p, err := netip.ParsePrefix(strings.TrimSpace(b))
		has4, has6 = has4 || err == nil && p.Addr().Is4(), has6 || err == nil && p.Addr().Is6()
	}
	switch {
	case has4 && has6:
		return Dual
	case has6:
		return IPv6
	default:
		return IPv4
	}
}

// adoptIPFamily takes over the family of the cluster, and refuses to change it.
func (c *Cluster) adoptIPFamily(cluster *unstructured.Unstructured, given func(flag string) bool) error {
	if cluster == nil {
		return nil
	}
	family := familyOf(cluster)
	if wanted := cmp.Or(c.IPFamily, IPv4); given("ip-family") && wanted != family {
		return fmt.Errorf("invalid --ip-family %q: cluster %s has %s, and addresses cannot be changed; make another cluster with --name", wanted,
			c.Name, family)
	}
	c.IPFamily = family
	return nil
}
