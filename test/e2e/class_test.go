//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// classes: clusters of a ClusterClass, with both kinds of control planes, are made from the examples, changed by a variable, and brought to
// another version by the Cluster alone: the control plane first, and the worker after it.
//
//quorate:shows kubernetes class older>newer
func classes(t *testing.T, e *environment) {
	for _, c := range []struct{ file, name string }{{"cluster-class.yaml", "classy"}, {"cluster-class-of-machines.yaml", "classy-machines"}} {
		t.Run(c.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../examples", c.file))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", writeManifests(t, c.name, string(text), "version: "+newer,
				"version: "+older))
			t.Logf("FIGURE %s: three machines and a worker of a class: %.1f s", c.file, time.Since(start).Seconds())
			eventually(t, "all nodes healthy", patience, e.healthy(t, c.name, 4))
			eventually(t, "three voters", patience, e.quorumOf(t, c.name, 3))
			if c.name == "classy" {
				e.variable(t, c.name)
			}
			e.versionByTopology(t, c.name)
			e.takeDown(t, c.name)
		})
	}
}

// oldest is the pinned version of Kubernetes that is three minors behind newer.
const oldest = "v1.34.4"

// chain are the pinned versions from the oldest to newer, one of each minor.
var chain = []string{oldest, "v1.35.4", older, newer}

// chainedClass: a cluster of the class, three minors behind, is brought to the newest version at once by its topology. Cluster API goes
// through the versions between, and each machine of the control plane is replaced once for each minor.
//
//quorate:shows kubernetes created oldest
//quorate:shows kubernetes class oldest>v1.35.4>older>newer
func chainedClass(t *testing.T, e *environment) {
	const name = "classy"
	text, err := os.ReadFile("../../examples/cluster-class.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.quorate(t, append([]string{"artifacts", "build"},
		chain...)...) // as a person would: the plane builds what is missing too, for minutes in the middle
	e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", writeManifests(t, name, string(text), "version: "+newer,
		"version: "+oldest))
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 4))
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	seen := &generations{of: map[string]string{}}
	e.topologyTo(t, name, oldest, newer, seen.look)
	if problem := seen.problem(); problem != "" {
		t.Error(problem)
	}
	t.Logf("FIGURE machines over three minors: %d of the control plane and %d workers, each seen once", seen.count(true), seen.count(false))
	e.takeDown(t, name)
}

// generations are the machines that a chained upgrade made.
type generations struct {
	of    map[string]string // version and role by name
	wrong string            // the first thing that must not be, empty: nothing
}

const controlPlaneRole = " control plane"

// look takes note of the machines that there are at a moment.
func (g *generations) look(machines []clusterv1.Machine) {
	at := map[string]bool{}
	for _, m := range machines {
		kind := m.Spec.Version
		if _, is := m.Labels[clusterv1.MachineControlPlaneLabel]; is {
			kind += controlPlaneRole
		}
		g.of[m.Name], at[kind] = kind, true
	}
	for i, version := range chain {
		for _, later := range chain[min(i+2, len(chain)):] {
			if at[version+controlPlaneRole] && at[later+controlPlaneRole] && g.wrong == "" {
				g.wrong = fmt.Sprintf("a control plane has machines of %s and %s at once: %v", version, later, g.of)
			}
		}
	}
}

// count returns how many machines of a role were seen.
func (g *generations) count(controlPlane bool) int {
	n := 0
	for _, kind := range g.of {
		if strings.HasSuffix(kind, controlPlaneRole) == controlPlane {
			n++
		}
	}
	return n
}

// problem says what was not as it should be: three machines of each version one after the other, and a worker of the first and of the last.
func (g *generations) problem() string {
	if g.wrong != "" {
		return g.wrong
	}
	n := map[string]int{}
	for _, kind := range g.of {
		n[kind]++
	}
	want := map[string]int{oldest: 1, newer: 1}
	for _, version := range chain {
		want[version+controlPlaneRole] = 3
	}
	if !maps.Equal(n, want) {
		return fmt.Sprintf("there were machines %v, want %v", n, want)
	}
	return ""
}

// variable changes a variable of the class, which all API servers then follow.
func (e *environment) variable(t *testing.T, name string) {
	t.Helper()
	made := e.identities(t, name)
	e.topology(t, name, func(topology *clusterv1.Topology) {
		for i := range topology.Variables {
			if topology.Variables[i].Name == "logLevel" {
				topology.Variables[i].Value.Raw = []byte(`"3"`)
			}
		}
	})
	eventually(t, "all API servers log as the variable says", 2*patience, func() string {
		c, _ := e.workload(t, name)
		pods, err := c.CoreV1().Pods("kube-system").List(context.Background(), listAll)
		if err != nil {
			return err.Error()
		}
		n := 0
		for _, p := range pods.Items {
			if strings.HasPrefix(p.Name, "kube-apiserver-") && slices.Contains(p.Spec.Containers[0].Command, "--v=3") {
				n++
			}
		}
		if n != 3 {
			return fmt.Sprintf("%d of 3 do", n)
		}
		return e.healthy(t, name, 4)()
	})
	if now := e.identities(t, name); slices.Equal(now, made) {
		t.Errorf("no machine was replaced: %v", now)
	}
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
}

// versionByTopology brings a cluster to the newer version by its topology, under a client that writes.
func (e *environment) versionByTopology(t *testing.T, name string) {
	t.Helper()
	e.topologyTo(t, name, older, newer, func([]clusterv1.Machine) {})
}

// topologyTo brings a cluster from one version to another by its topology, under a client that writes; look is shown its machines again and
// again.
func (e *environment) topologyTo(t *testing.T, name, from, to string, look func([]clusterv1.Machine)) {
	t.Helper()
	var workerFirst string
	e.written(t, name, func() {
		start := time.Now()
		e.topology(t, name, func(topology *clusterv1.Topology) { topology.Version = to })
		eventually(t, "all machines are of the new version", 6*patience, func() string {
			machines := e.machinesWith(t, clusterLabels(name))
			look(machines)
			behind := map[bool][]string{}
			for _, m := range machines {
				_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
				if m.Spec.Version != to || !m.DeletionTimestamp.IsZero() || m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != to {
					behind[controlPlane] = append(behind[controlPlane], m.Name)
				}
			}
			if len(behind[true]) > 0 && len(behind[false]) == 0 && workerFirst == "" {
				workerFirst = fmt.Sprintf("%v were behind when the worker was not any more", behind[true])
			}
			if all := slices.Concat(behind[true], behind[false]); len(all) > 0 {
				return strings.Join(all, " ") + " are not"
			}
			return e.healthy(t, name, 4)()
		})
		t.Logf("FIGURE %s: %s -> %s by spec.topology.version: %.1f s", name, from, to, time.Since(start).Seconds())
	})
	if workerFirst != "" {
		t.Error(workerFirst)
	}
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
}

// topology changes what a Cluster says of its class.
func (e *environment) topology(t *testing.T, name string, f func(*clusterv1.Topology)) {
	t.Helper()
	cluster, c := &clusterv1.Cluster{}, e.management(t)
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	f(&cluster.Spec.Topology)
	if err := c.Patch(context.Background(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
