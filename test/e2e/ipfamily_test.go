//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ipv6: clusters without IPv4 addresses.
func ipv6(t *testing.T, e *environment) {
	e.livesOf(t, "ipv6", "v6", true, false)
	if out, err := e.try("up", "--network", e.network, "--name", "sixetcd", "--etcd", "3", "--ip-family", "ipv6"); err == nil ||
		!strings.Contains(err.Error(), "use --ip-family dual") {
		t.Errorf("etcd on machines of its own without IPv4: %v, %s", err, out)
	}
	if out, err := e.try("up", "--network", e.network, "--name", "sixbad", "--ip-family", "6"); err == nil ||
		!strings.Contains(err.Error(), `invalid --ip-family "6": must be ipv4, ipv6 or dual`) {
		t.Errorf("a family that there is none of: %v, %s", err, out)
	}
}

// dualStack: clusters with addresses of both families.
func dualStack(t *testing.T, e *environment) {
	e.livesOf(t, "dual", "dual", true, true)
	e.etcdCreated(t, "dualetcd", "--ip-family", "dual")
}

// livesOf takes clusters of a family through what others go through: a pod of a worker reaches a Service, three machines are replaced by
// those of another version, and one, and three of which one leads etcd, become another version in place.
func (e *environment) livesOf(t *testing.T, family, prefix string, has6, has4 bool) {
	t.Helper()
	with := []string{"--ip-family", family}
	e.workerReaches(t, prefix+"work", with...)

	roll := prefix + "roll"
	took := e.up(t, roll, append(with, "--replicas", "3", "--kubernetes-version", older)...)
	t.Logf("FIGURE up --replicas 3 --ip-family %s: %.1f s", family, took.Seconds())
	eventually(t, "three voters", patience, e.quorumOf(t, roll, 3))
	eventually(t, "Nodes and pods have addresses of "+family, patience, func() string { return e.haveAddresses(t, roll, has6, has4) })
	rollOver(t, e, roll, 4)
	eventually(t, "Nodes and pods have addresses of "+family, patience, func() string { return e.haveAddresses(t, roll, has6, has4) })
	e.takeDown(t, roll)

	for _, replicas := range []int{1, 3} {
		name := prefix + "in" + strconv.Itoa(replicas)
		e.up(t, name, append(with, "--replicas", strconv.Itoa(replicas), "--kubernetes-version", older)...)
		e.upgradedInPlace(t, name, replicas)
		eventually(t, "Nodes and pods have addresses of "+family, patience, func() string { return e.haveAddresses(t, name, has6, has4) })
		e.takeDown(t, name)
	}
}

// haveAddresses returns which Node or pod of a cluster has not got addresses of exactly these families; empty: all have.
func (e *environment) haveAddresses(t *testing.T, name string, has6, has4 bool) string {
	t.Helper()
	c, _ := e.workload(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		return err.Error()
	}
	pods, err := c.CoreV1().Pods("kube-system").List(context.Background(), listAll)
	if err != nil {
		return err.Error()
	}
	of := map[string][]string{}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				of["Node "+n.Name] = append(of["Node "+n.Name], a.Address)
			}
		}
	}
	for _, p := range pods.Items {
		of["pod "+p.Name] = nil
		for _, a := range p.Status.PodIPs {
			of["pod "+p.Name] = append(of["pod "+p.Name], a.IP)
		}
	}
	for who, addresses := range of {
		is := func(six bool) bool {
			return slices.ContainsFunc(addresses, func(text string) bool { a, err := netip.ParseAddr(text); return err == nil && a.Is6() == six })
		}
		if is(true) != has6 || is(false) != has4 {
			return fmt.Sprintf("%s has %v", who, addresses)
		}
	}
	return ""
}
