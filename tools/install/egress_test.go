package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restricted is the policy's name among rendered objects.
const restricted = "NetworkPolicy quorate-system/quorate-manager"

// policyOf returns a rendered object as the policy that it is. Fields that there are not are errors.
func policyOf(t *testing.T, o unstructured.Unstructured) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, p, true); err != nil {
		t.Fatal(err)
	}
	return p
}

// reaches reports whether a policy lets a connection by TCP to an address and a port out.
func reaches(t *testing.T, p *networkingv1.NetworkPolicy, address string, port int) bool {
	t.Helper()
	to := netip.MustParseAddr(address)
	for _, rule := range p.Spec.Egress {
		open := len(rule.Ports) == 0
		for _, one := range rule.Ports {
			open = open ||
				ptr.Deref(one.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP && (one.Port == nil || one.Port.IntValue() == port)
		}
		if !open {
			continue
		}
		if len(rule.To) == 0 {
			return true
		}
		for _, peer := range rule.To {
			if peer.IPBlock == nil || !within(t, peer.IPBlock.CIDR, to) {
				continue
			}
			out := false
			for _, except := range peer.IPBlock.Except {
				out = out || within(t, except, to)
			}
			if !out {
				return true
			}
		}
	}
	return false
}

func within(t *testing.T, cidr string, address netip.Addr) bool {
	t.Helper()
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return prefix.Contains(address)
}

// TestRestrictedEgress: config/restricted-egress is config/default but for the policy, which an API server accepts, and by which the
// manager reaches API servers and etcd, and neither metadata services nor pods. The chart's values make the same of it.
func TestRestrictedEgress(t *testing.T) {
	all, changed := objects(t, "default"), objects(t, "restricted-egress")
	for name, o := range all {
		if name != restricted && !reflect.DeepEqual(o.Object, changed[name].Object) {
			t.Errorf("%s differs", name)
		}
	}
	if len(all) != len(changed) {
		t.Errorf("%d objects, want %d", len(changed), len(all))
	}
	values, err := os.ReadFile(filepath.Join(sources, "config", "restricted-egress", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policy := policyOf(t, changed[restricted])
	if chart := policyOf(t, installed(t, load(t), string(values))[restricted]); !reflect.DeepEqual(chart.Spec.Egress, policy.Spec.Egress) ||
		!reflect.DeepEqual(chart.Spec.Ingress, policy.Spec.Ingress) {
		t.Error("values.yaml and network.yaml differ")
	}
	for _, to := range []struct {
		address string
		port    int
		open    bool
	}{
		{"203.0.113.7", 6443, true}, {"203.0.113.7", 443, true}, {"10.0.0.7", 2379, true}, {"2001:db8::7", 6443, true},
		{"203.0.113.7", 80, false}, {"203.0.113.7", 22, false}, {"203.0.113.7", 10250, false},
		{"169.254.169.254", 80, false}, {"169.254.169.254", 443, false}, {"169.254.169.254", 6443, false}, {"fd00:ec2::254", 443, false},
		{"fe80::1", 6443, false},
		{"10.244.3.9", 443, false}, {"10.244.3.9", 2379, false}, {"fd00:10:244:1::9", 6443, false},
	} {
		if got := reaches(t, policy, to.address, to.port); got != to.open {
			t.Errorf("%s port %d can be reached: %t, want %t", to.address, to.port, got, to.open)
		}
		if to.port != 53 && !reaches(t, policyOf(t, all[restricted]), to.address, to.port) {
			t.Errorf("%s port %d cannot be reached by config/default: this test looks at nothing", to.address, to.port)
		}
	}
	c := start(t)
	c.kubectl(t, "create", "namespace", policy.Namespace)
	if err := c.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	names := policy.DeepCopy()
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(policy), names); err != nil || len(names.Spec.Egress) != 2 {
		t.Errorf("%d rules, %v", len(names.Spec.Egress), err)
	}
}
