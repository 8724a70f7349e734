//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// oldFirst has rollouts take an old machine away before they make a new one.
const oldFirst = "  rollout:\n    strategy:\n      type: RollingUpdate\n      rollingUpdate:\n        maxSurge: 0\n"

// joinStatic: names and addresses of all machines are known beforehand and in the certificates, which have nothing else. Who asks for an
// address that no machine can have, or that another has, is told so, and nothing is made. A machine's address goes to the one that replaces
// it.
//
//quorate:shows kubernetes created newer
func joinStatic(t *testing.T, e *environment) {
	const name = "romeo"
	var addresses []string
	for n := range 3 {
		addresses = append(addresses, fmt.Sprintf("%s.9.%d", e.prefix(t), n+1))
	}
	sans := append([]string{"romeo.example.org", "romeo-cp-1", "romeo-cp-2", "romeo-cp-3"}, addresses...)
	start := time.Now()
	e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", e.manifests(t, name, newer,
		"    spec: {}\n", "    spec:\n      addresses: ["+strings.Join(addresses, ", ")+"]\n",
		"  kubeadmConfigSpec:\n", oldFirst+"  kubeadmConfigSpec:\n",
		clusterConfiguration, clusterConfiguration+"      apiServer:\n        certSANs: ["+strings.Join(sans, ", ")+"]\n"))
	t.Logf("FIGURE three machines with fixed names and addresses: %.1f s", time.Since(start).Seconds())
	if got := e.machines(t, name); !slices.Equal(got, []string{"romeo-cp-1", "romeo-cp-2", "romeo-cp-3"}) {
		t.Errorf("the machines are %v", got)
	}
	e.serveExactly(t, name, addresses, sans)
	e.refusesAddresses(t, "juliett", addresses[0])

	victim := e.machines(t, name)[0]
	deleteMachine(t, e, victim)
	eventually(t, "another machine in place of "+victim, patience, func() string {
		if now := e.machines(t, name); slices.Contains(now, victim) {
			return e.controlPlane(t, name).Status.Plan.Message
		}
		return e.quorumOf(t, name, 3)()
	})
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	e.serveExactly(t, name, addresses, sans)
	e.takeDown(t, name)
}

// prefix is the beginning of the addresses of the environment's network.
func (e *environment) prefix(t *testing.T) string {
	t.Helper()
	_, network, err := net.ParseCIDR(e.network)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d.%d", network.IP.To4()[0], network.IP.To4()[1])
}

// serveExactly checks that the machines have these addresses, and that each API server shows a certificate with kubeadm's names, its own
// machine's and those that were asked for, and no other.
func (e *environment) serveExactly(t *testing.T, name string, addresses, sans []string) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range e.machineObjects(t, name) {
		own := ""
		for _, a := range m.Status.Addresses {
			if a.Type == clusterv1.MachineInternalIP {
				own = a.Address
			}
		}
		have = append(have, own)
		want := append([]string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"10.96.0.1", cluster.Spec.ControlPlaneEndpoint.Host, m.Name, own,
		}, sans...)
		slices.Sort(want)
		want = slices.Compact(want)
		if got := servedNames(t, own); !slices.Equal(got, want) {
			t.Errorf("the API server of %s has a certificate for\n%v, want\n%v", m.Name, got, want)
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, addresses) {
		t.Errorf("the machines have the addresses %v, want %v", have, addresses)
	}
}

// servedNames are the names and addresses in the certificate that the API server at an address shows, sorted.
func servedNames(t *testing.T, address string) []string {
	t.Helper()
	cert := servedCertificate(t, address)
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return names
}

// servedCertificate is the certificate that the API server at an address shows.
func servedCertificate(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", net.JoinHostPort(address, "6443"),
		&tls.Config{InsecureSkipVerify: true}) // looked at, not believed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

// refusesAddresses has a cluster whose one machine wants addresses that it cannot have: outside of the range, and taken. Nothing is made
// until it may have one.
func (e *environment) refusesAddresses(t *testing.T, name, taken string) {
	t.Helper()
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer,
		"    spec: {}\n", "    spec:\n      addresses: [192.0.2.7]\n", "  replicas: 3\n", "  replicas: 1\n"))
	e.saysOfAddress(t, name+"-cp-1", "SpecInvalid", "spec.addresses[0] is 192.0.2.7; want an address for machines of this environment, from "+
		e.prefix(t)+".1.1 to "+e.prefix(t)+".255.254")
	e.wantAddress(t, name+"-cp-1", taken)
	e.saysOfAddress(t, name+"-cp-1", "NoAddress", taken+" is that of machine romeo-cp-")
	if out := e.quorate(t, "machine", "list"); strings.Contains(out, name) {
		t.Errorf("a machine was made:\n%s", out)
	}
	free := e.prefix(t) + ".9.77"
	e.wantAddress(t, name+"-cp-1", free)
	eventually(t, "the machine with an address that is free", patience, func() string {
		if m := e.machineObjects(t, name); !strings.Contains(fmt.Sprint(m[0].Status.Addresses), free) {
			return fmt.Sprint(m[0].Status.Addresses)
		}
		return ""
	})
	e.takeDown(t, name)
}

// saysOfAddress waits until a LocalMachine says why it has no address.
func (e *environment) saysOfAddress(t *testing.T, name, reason, words string) {
	t.Helper()
	c := e.management(t)
	eventually(t, name+" says "+reason, patience, func() string {
		lm := &infrav1.LocalMachine{}
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, lm); err != nil {
			return err.Error()
		}
		said := ptr.Deref(conditions.Get(lm, clusterv1.ReadyCondition), metav1.Condition{})
		if said.Reason != reason || !strings.Contains(said.Message, words) {
			return said.Reason + ": " + said.Message
		}
		return ""
	})
}

// wantAddress changes what a LocalMachine wants, as a user does.
func (e *environment) wantAddress(t *testing.T, name, address string) {
	t.Helper()
	c, lm := e.management(t), &infrav1.LocalMachine{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, lm); err != nil {
		t.Fatal(err)
	}
	before := lm.DeepCopy()
	lm.Spec.Addresses = []string{address}
	if err := c.Patch(context.Background(), lm, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
