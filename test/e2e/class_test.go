//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// classes: clusters of a ClusterClass, with both kinds of control planes, are made from the examples, changed by a variable, and brought to another version by the Cluster
// alone: the control plane first, and the worker after it.
func classes(t *testing.T, e *environment) {
	for _, c := range []struct{ file, name string }{{"cluster-class.yaml", "classy"}, {"cluster-class-of-machines.yaml", "classy-machines"}} {
		t.Run(c.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../examples", c.file))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", writeManifests(t, c.name, string(text), "version: "+newer, "version: "+older))
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
	var workerFirst string
	e.written(t, name, func() {
		start := time.Now()
		e.topology(t, name, func(topology *clusterv1.Topology) { topology.Version = newer })
		eventually(t, "all machines are of the new version", 3*patience, func() string {
			behind := map[bool][]string{}
			for _, m := range e.machinesWith(t, clusterLabels(name)) {
				_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
				if m.Spec.Version != newer || !m.DeletionTimestamp.IsZero() || m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != newer {
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
		t.Logf("FIGURE %s: %s -> %s by spec.topology.version: %.1f s", name, older, newer, time.Since(start).Seconds())
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
