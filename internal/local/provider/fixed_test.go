package provider

import (
	"fmt"
	"net/netip"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// TestFixedAddresses: machines share the list of their template, wait when nothing of it is free, and give back what they had.
func TestFixedAddresses(t *testing.T) {
	list := []string{"172.30.7.2", "172.30.7.1"}
	objects := life("alpha", "a1", "a2", "a3")
	for _, o := range objects {
		if lm, ok := o.(*infrav1.LocalMachine); ok {
			lm.Spec.Addresses = list
		}
	}
	s := newScene(t, objects...)
	has := func(name, want string) {
		t.Helper()
		s.machine(name)
		if m := s.host.all[name]; m == nil || m.Address.String() != want {
			t.Errorf("%s has %v, want %s", name, m, want)
		}
	}
	has("a1", "172.30.7.2")
	has("a2", "172.30.7.1")
	const waits = "False NoAddress no address of spec.addresses is free: 172.30.7.2 is that of machine a1, 172.30.7.1 is that of machine " +
		"a2; one more, or the end of one of these, is needed"
	wantCondition(t, s.machine("a3"), clusterv1.ReadyCondition, waits)
	if result, err := s.settle(s.machines, "a3"); err != nil || result.RequeueAfter != askAgain {
		t.Errorf("result %+v, %v", result, err)
	}
	s.restart() // objects and machines tell whose they are
	wantCondition(t, s.machine("a3"), clusterv1.ReadyCondition, waits)
	if s.host.all["a3"] != nil {
		t.Error("it was made")
	}
	s.remove(get[infrav1.LocalMachine](s, "a1"))
	s.machine("a1")
	has("a3", "172.30.7.2")
}

// TestFixedAddressesOfOthers: what machines, endpoints and their specs have, nobody else gets.
func TestFixedAddressesOfOthers(t *testing.T) {
	c, lc := aCluster("bravo")
	lc.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "172.30.1.2", Port: 6443}
	template := &infrav1.LocalMachineTemplate{ObjectMeta: meta("static")}
	template.Spec.Template.Spec.Addresses = []string{"172.30.1.1", "172.30.1.4"}
	objects := append(life("alpha", "any", "one", "two"), c, lc, template)
	for _, o := range objects {
		if lm, ok := o.(*infrav1.LocalMachine); ok && lm.Name != "any" {
			lm.Spec.Addresses = map[string][]string{"one": {"172.30.1.3"}, "two": {"172.30.1.2", "172.30.1.5"}}[lm.Name]
		}
	}
	s := newScene(t, objects...)
	for name, want := range map[string]string{"any": "172.30.1.6", "one": "172.30.1.3", "two": "172.30.1.5"} {
		s.machine(name)
		if got := s.host.all[name].Address.String(); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	m, lm := aMachine("late", "alpha")
	lm.Spec.Addresses = []string{"172.30.1.6", "172.30.1.2"}
	s.add(m, lm)
	wantCondition(t, s.machine("late"), clusterv1.ReadyCondition,
		"False NoAddress 172.30.1.6 is that of machine any, 172.30.1.2 is that of the endpoint of LocalCluster bravo")
}

// TestFixedAddressesInvalid: addresses that no machine can have are refused, whichever of the list, also before its build is there.
func TestFixedAddressesInvalid(t *testing.T) {
	for address, valid := range map[string]bool{
		"172.30.1.0": false, "172.30.1.1": true, "172.30.255.254": true, "172.30.255.255": false, "172.30.0.20": false,
		"172.31.1.1": false, "10.0.0.1": false, "fd00::1": false, "::ffff:172.30.1.1": false, "172.30.1.01": false, "here": false, "": false,
	} {
		t.Run(address, func(t *testing.T) {
			objects := life("alpha", "one")
			for _, o := range objects {
				switch o := o.(type) {
				case *infrav1.LocalMachine:
					o.Spec.Addresses = []string{"172.30.9.9", address}
				case *clusterv1.Machine:
					if !valid {
						o.Spec.Version = "v1.2.3" // which cannot be built
					}
				}
			}
			s := newScene(t, objects...)
			got := s.machine("one")
			if valid {
				if m := s.host.all["one"]; m == nil || m.Address != netip.MustParseAddr("172.30.9.9") {
					t.Errorf("the machine is %v", m)
				}
				return
			}
			wantCondition(t, got, clusterv1.ReadyCondition, fmt.Sprintf(
				"False SpecInvalid spec.addresses[1] is %s; want an address for machines of this environment, from 172.30.1.1 to 172.30.255.254",
				address))
			// Put right, it is made.
			edit(s, "one", func(m *clusterv1.Machine) { m.Spec.Version = "v1.36.3" })
			edit(s, "one", func(lm *infrav1.LocalMachine) { lm.Spec.Addresses = []string{"172.30.9.9"} })
			s.machine("one")
			if m := s.host.all["one"]; m == nil || m.Address != netip.MustParseAddr("172.30.9.9") {
				t.Errorf("once it is right, the machine is %v", m)
			}
		})
	}
}
