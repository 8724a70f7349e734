//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// etcdEndpoints: without a static endpoint a rollout of etcd replaces each machine of the control plane once, and never takes the last
// member that one of them knows. From addresses to a balancer of the user's, twice as its name must come into the certificates, and back no
// write is lost, and with the balancer a rollout of etcd touches no machine of the control plane. The API has etcd's port, so that a
// LocalCluster has no endpoint to offer.
func etcdEndpoints(t *testing.T, e *environment) {
	const name, kind = "etcd-moved", "ControlPlane"
	manifests := writeManifests(t, name, e.quorate(t, "up", "--dry-run", "--name", name, "--kind", kind, "--etcd", "3", "--replicas", "3"),
		"kind: LocalCluster\nmetadata:\n  labels:\n    cluster.x-k8s.io/cluster-name: etcd-moved\n  name: etcd-moved\n  namespace: "+
			"default\nspec:\n",
		"kind: LocalCluster\nmetadata:\n  labels:\n    cluster.x-k8s.io/cluster-name: etcd-moved\n  name: etcd-moved\n  namespace: "+
			"default\nspec:\n  controlPlaneEndpoint:\n    host: "+e.address("0.77")+"\n    port: 2379\n")
	start := time.Now()
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", manifests)
	e.etcdSettled(t, name, 3)
	t.Logf("FIGURE three machines of etcd until all vote: %.1f s", time.Since(start).Seconds())
	e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", manifests)
	e.rests(t, name, 3)
	t.Logf("FIGURE three machines of etcd and three of the control plane until all are ready: %.1f s", time.Since(start).Seconds())
	if got := e.etcdClusterOf(t, name).Status.Endpoints; len(strings.Split(got, ",")) != 3 {
		t.Fatalf("the endpoints are %s, want the addresses of three members", got)
	}

	e.followed(t, name, "etcd rolled, addresses to addresses", 3, true, func(c *etcdclusterv1alpha1.EtcdCluster) {
		c.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true"}
	})
	if err := e.scaleTo(t, name, 1); err != nil {
		t.Fatal(err)
	}
	e.rests(t, name, 1)
	proxy := e.balanceEtcd(t, name)
	e.followed(t, name, "addresses to a balancer", 2, true, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Endpoint = proxy })
	e.followed(t, name, "etcd rolled behind the balancer", 0, true, func(c *etcdclusterv1alpha1.EtcdCluster) {
		c.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true", "true"}
	})
	e.followed(t, name, "a balancer to addresses", 1, false, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Endpoint = "" })
	e.takeDown(t, name)
}

// followed changes etcd under a client that goes on writing, and waits until etcd, of three members, and the control plane are at rest.
// So many machines of the control plane are made, all that there were are replaced unless it is none; etcd's are, if rolled says so.
func (e *environment) followed(t *testing.T, name, what string, replaced int, rolled bool, change func(*etcdclusterv1alpha1.EtcdCluster)) {
	t.Helper()
	before, members, start := e.machines(t, name), e.etcdMachineNames(t, name), time.Now()
	replicas := len(before)
	made, endpoints := e.made(t, name), e.etcdClusterOf(t, name).Status.Endpoints
	gap := e.written(t, name, func() {
		e.changeEtcd(t, name, change)
		if rolled {
			e.etcdReplaced(t, name, members)
		}
		eventually(t, what+": the control plane has followed", 3*patience, func() string {
			if now := e.etcdClusterOf(t, name); replaced > 0 && now.Status.Endpoints == endpoints || now.Spec.Endpoint != "" &&
				now.Status.Endpoints != "https://"+now.Spec.Endpoint {
				return "the endpoints are " + now.Status.Endpoints
			}
			return e.lookElsewhere(t, name)
		})
		e.etcdSettled(t, name, 3)
		e.rests(t, name, replicas)
	})
	now, stayed := e.machines(t, name), 0
	for _, m := range now {
		if slices.Contains(before, m) {
			stayed++
		}
	}
	if n := e.made(t, name) - made; n != replaced || (stayed == 0) != (replaced > 0) {
		t.Errorf("%s: the control plane's machines were %v and are %v, %d were made, want %d", what, before, now, n, replaced)
	}
	if gap > 2*time.Second {
		t.Errorf("%s: for %s no write was acknowledged, want at most 2 s", what, gap)
	}
	t.Logf("FIGURE %s: %d machines of the control plane made for it, %.1f s", what, e.made(t, name)-made, time.Since(start).Seconds())
}

// made is how many machines of the control plane were ever made.
func (e *environment) made(t *testing.T, name string) int {
	t.Helper()
	var n int
	annotation := e.machinesOf(t, name).Annotations[controlplanev1.LastMachineAnnotation]
	if _, err := fmt.Sscan(annotation, &n); err != nil {
		t.Fatalf("reading the number of the newest machine from %q: %v", annotation, err)
	}
	return n
}

// lookElsewhere says which machine of the control plane looks for etcd elsewhere than at its endpoints; empty: none does.
func (e *environment) lookElsewhere(t *testing.T, name string) string {
	want := strings.Split(e.etcdClusterOf(t, name).Status.Endpoints, ",")
	slices.Sort(want)
	for _, m := range e.machines(t, name) {
		out, err := e.try("shell", m, "--", "sh", "-c", "tr '\\0' '\\n' </proc/$(pgrep -x kube-apiserver)/cmdline | grep etcd-servers=")
		if err != nil {
			return err.Error()
		}
		has := strings.Split(strings.TrimPrefix(strings.TrimSpace(out), "--etcd-servers="), ",")
		slices.Sort(has)
		if !slices.Equal(has, want) {
			return fmt.Sprintf("%s looks for etcd at %v, the endpoints are %v: %s", m, has, want, e.etcdClusterOf(t, name).Status.Plan.Message)
		}
	}
	return ""
}

// balanceEtcd has a balancer as a user would: an address of the host that leads to a member that answers. It returns the address and
// the port.
func (e *environment) balanceEtcd(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(netip.MustParsePrefix(e.network).Addr().Next().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); _ = l.Close(); all.Wait() })
	c := e.management(t)
	dial := func() (net.Conn, error) {
		var list clusterv1.MachineList
		if err := c.List(ctx, &list, etcdLabels(name)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			m := &list.Items[i]
			if ip := machine.InternalIP(m); ip != "" && m.DeletionTimestamp.IsZero() {
				if to, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "2379"), time.Second); err == nil {
					return to, nil
				}
			}
		}
		return nil, fmt.Errorf("no member answers")
	}
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = from.Close() }()
				to, err := dial()
				if err != nil {
					return
				}
				context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })
				defer func() { _ = to.Close() }()
				done := make(chan struct{}, 2)
				for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
					go func() { _, _ = io.Copy(pair[0], pair[1]); done <- struct{}{} }()
				}
				<-done
			})
		}
	})
	return l.Addr().String()
}
