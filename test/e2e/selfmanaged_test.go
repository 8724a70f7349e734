//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/process"
)

// The manager of the control plane provider in a management cluster.
const (
	quorateNamespace = "quorate-system"
	quorateManager   = "quorate-manager"
)

// moved: a cluster becomes its own management cluster and gives all back, while a client writes; no machine is replaced by that.
func moved(t *testing.T, e *environment) {
	e.up(t, "home", "--replicas", "1", "--workers", "1")
	eventually(t, "all nodes healthy", patience, e.healthy(t, "home", 2))
	before := e.nodes(t, "home")
	for _, flag := range []string{"--self-managed", "--self-managed", "--self-managed=false", "--self-managed"} {
		e.written(t, "home", func() { e.up(t, "home", flag) })
		e.sameNodes(t, "home", before)
	}
	e.up(t, "home", "--self-managed=false")
	e.sameNodes(t, "home", before)
	e.takeDown(t, "home")
}

// selfManaged: a cluster keeps itself and another one: it makes that, survives the death of its leader and its host's boot, and rolls its
// own machines.
//
//quorate:shows kubernetes replaced older>newer
func selfManaged(t *testing.T, e *environment) {
	e.up(t, "home", "--kubernetes-version", older)
	eventually(t, "all nodes healthy", patience, e.healthy(t, "home", 3))
	before := e.nodes(t, "home")
	start := time.Now()
	e.written(t, "home", func() { e.up(t, "home", "--self-managed") })
	e.sameNodes(t, "home", before)
	e.up(t, "second")
	t.Logf("FIGURE self-managed, and a second cluster of three: %.1f s", time.Since(start).Seconds())
	eventually(t, "all nodes of the second healthy", patience, e.healthy(t, "second", 3))
	if out, err := e.try("down", "home", "--yes"); err == nil || !strings.Contains(err.Error(), "keeps itself") {
		t.Errorf("down home: %v %s", err, out)
	}
	e.leaderDies(t)
	e.hostBoots(t, "home")
	e.up(t, "second", "--replicas", "1") // seven nodes at once are more than two processors carry
	eventually(t, "one voter of the second", patience, e.quorumOf(t, "second", 1))
	e.written(t, "home", func() { e.up(t, "home", "--kubernetes-version", newer, "--timeout", "30m") })
	eventually(t, "three voters", patience, e.quorumOf(t, "home", 3))
	if now := e.nodes(t, "home"); slices.ContainsFunc(now, func(n string) bool { return slices.Contains(before, n) }) {
		t.Errorf("after a rollout the nodes are %v, and were %v", now, before)
	}
	rolled := e.nodes(t, "home")
	e.takeDown(t, "second")
	e.nothingForbidden(t)
	e.up(t, "home", "--self-managed=false")
	e.sameNodes(t, "home", rolled)
	e.takeDown(t, "home")
}

// nodes are the nodes of a cluster with their UIDs, which the machines outlive no replacement of.
func (e *environment) nodes(t *testing.T, name string) []string {
	t.Helper()
	c, _ := e.workload(t, name)
	all, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range all.Items {
		nodes = append(nodes, n.Name+" "+string(n.UID))
	}
	slices.Sort(nodes)
	return nodes
}

// sameNodes fails the test unless a cluster is healthy with the nodes that it had, each with its Machine.
func (e *environment) sameNodes(t *testing.T, name string, before []string) {
	t.Helper()
	eventually(t, "each Machine has its Node", patience, func() string {
		machines := e.machinesWith(t, clusterLabels(name))
		for _, m := range machines {
			if !m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero() {
				return m.Name + " has not"
			}
		}
		if len(machines) != len(before) {
			return fmt.Sprintf("%d Machines for %d Nodes", len(machines), len(before))
		}
		return e.healthy(t, name, len(before))()
	})
	if now := e.nodes(t, name); !slices.Equal(now, before) {
		t.Errorf("nodes are\n%s, and were\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
}

// nothingForbidden fails the test where a manager of the provider in pods was refused what it asked the management cluster for: its roles
// lack a right there.
func (e *environment) nothingForbidden(t *testing.T) {
	t.Helper()
	c, _ := e.workload(t, "home")
	ctx := context.Background()
	pods, err := c.CoreV1().Pods(quorateNamespace).List(ctx, listAll)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		t.Errorf("no manager runs in %s", quorateNamespace)
	}
	for _, pod := range pods.Items {
		logs, err := c.CoreV1().Pods(quorateNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(logs)) {
			if strings.Contains(line, " is forbidden: ") {
				t.Errorf("%s: %s", pod.Name, line)
			}
		}
	}
}

// leaderDies kills the process of the manager that works; the other one goes on.
func (e *environment) leaderDies(t *testing.T) {
	t.Helper()
	c, _ := e.workload(t, "home")
	ctx := context.Background()
	lease := func() *coordinationv1.Lease {
		l, err := c.CoordinationV1().Leases(quorateNamespace).Get(ctx, quorateManager, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	holder := *lease().Spec.HolderIdentity
	pod, _, _ := strings.Cut(holder, "_")
	immediately := int64(0)
	start := time.Now()
	if err := c.CoreV1().Pods(quorateNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &immediately}); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "another manager holds the lease", patience, func() string {
		if now := *lease().Spec.HolderIdentity; now == holder || now == "" {
			return "it is held by " + now
		}
		return ""
	})
	t.Logf("FIGURE leader killed: another one after %.1f s (%s)", took.Seconds(), time.Since(start))
}

// hostBoots ends everything of the environment at once, as a power failure does, and has the daemon find another boot. The management
// cluster is among what ended.
func (e *environment) hostBoots(t *testing.T, name string) {
	t.Helper()
	before := e.nodes(t, name)
	killDaemon(t, e)
	host, err := sandbox.Open(e.state, netip.MustParsePrefix(e.network), "")
	if err != nil {
		t.Fatal(err)
	}
	machines, err := host.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		if err := syscall.Kill(m.PID, syscall.SIGKILL); err != nil {
			t.Fatalf("killing machine %s: %v", m.Name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(e.state, "endpoints", "*.pid"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d endpoints, %v", len(files), err)
	}
	for _, file := range files {
		if balancer, ok := process.Read(file); ok {
			if err := syscall.Kill(balancer.PID, syscall.SIGKILL); err != nil {
				t.Fatalf("killing an endpoint: %v", err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(e.state, "management", "boot"), []byte("of-before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	e.up(t, name)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 3))
	// The objects of the other clusters tell when their machines ran last: after the boot that this host really had.
	for _, m := range machines {
		if m.Cluster != "default/"+name {
			e.quorate(t, "machine", "start", m.Name)
		}
	}
	t.Logf("FIGURE the host was booted: the management cluster is healthy after %.1f s", time.Since(start).Seconds())
	e.sameNodes(t, name, before)
}
