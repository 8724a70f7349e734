//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/test/compatibility"
)

// cells returns those of all pinned versions; those of FROM and TO only, where these are given. QUORATE_E2E_CELL chooses some of them.
func cells(t *testing.T, file string) []compatibility.Cell {
	t.Helper()
	all := compatibility.Upgrades()
	if os.Getenv("QUORATE_E2E_FROM")+os.Getenv("QUORATE_E2E_TO") != "" {
		all = compatibility.Ways(older, newer)
	}
	measured, err := compatibility.ReadUpgrades(file)
	if err != nil {
		t.Fatal(err)
	}
	if all, err = compatibility.Choose(all, measured, os.Getenv("QUORATE_E2E_CELL")); err != nil {
		t.Fatal(err)
	}
	return all
}

// versions: clusters go from one version to another, replaced and in place, under a client that writes. It prints a line for each way, and
// writes it into the file that QUORATE_E2E_CELLS names.
//
//quorate:shows kubernetes created each
//quorate:shows kubernetes replaced each
//quorate:shows kubernetes in-place each
func versions(t *testing.T, e *environment) {
	file := os.Getenv("QUORATE_E2E_CELLS")
	all, failed, runs := cells(t, file), 0, []compatibility.Measured{}
	for _, c := range all {
		run, ran := compatibility.Measured{Cell: c, Date: time.Now().UTC().Format(time.DateOnly)}, false
		run.Passed = t.Run(c.Name(), func(t *testing.T) { ran = true; e.upgradeCell(t, &run) })
		if !ran { // go test -run names another one; then Run returns true
			continue
		}
		if !run.Passed {
			failed++
			e.tellWhy(t)
			e.clear(t)
		}
		runs = append(runs, run)
		if file != "" {
			if err := compatibility.AddUpgrade(file, run); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("FIGURE upgrades: %d run, %d failed\n%s", len(runs), failed, compatibility.Table(all, runs))
}

// upgradeCell makes a cluster of one version, brings it to the other, and notes in run what that took.
func (e *environment) upgradeCell(t *testing.T, run *compatibility.Measured) {
	t.Helper()
	c, name := run.Cell, run.Name()
	e.quorate(t, "artifacts", "build", c.From, c.To) // the plane would build them too, for minutes in the middle
	e.up(t, name, "--replicas", strconv.Itoa(c.Machines), "--workers", strconv.Itoa(c.Workers), "--kubernetes-version", c.From)
	before := e.etcdOf(t, name)
	machines := uids(e.machineObjects(t, name))
	client, lost := e.underWrites(t, name, func() {
		args := []string{"--kubernetes-version", c.To}
		if c.Way == compatibility.InPlace {
			args = append(args, "--in-place=Only")
		}
		begun := time.Now()
		e.up(t, name, args...)
		eventually(t, "all voters", patience, e.quorumOf(t, name, c.Machines))
		// `quorate up` is done with the control plane, and workers that stay are upgraded after it.
		eventually(t, "all nodes have the version", 2*patience, e.nodesHave(t, name, c.To))
		run.Seconds = tenths(time.Since(begun))
		eventually(t, "all nodes healthy", patience, e.healthy(t, name, c.Machines+c.Workers))
	})
	run.Writes, run.Failed, run.Lost, run.Gap = client.tried, client.failed, lost, tenths(client.gap)
	checkGap(t, client.gap, c.Machines)
	e.isVersion(t, name, c.To)
	e.servicesServe(t, name)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, c.Machines+c.Workers)) // CoreDNS is replaced last
	if stay := slices.Equal(machines, uids(e.machineObjects(t, name))); stay != (c.Way == compatibility.InPlace) {
		t.Errorf("the machines are the same: %t, and the way is %s", stay, c.Way)
	}
	if run.Etcd = before; before != e.etcdOf(t, name) {
		run.Etcd += " -> " + e.etcdOf(t, name)
	}
	e.takeDown(t, name)
}

// nodesHave returns what is missing until the kubelets of all nodes have a version.
func (e *environment) nodesHave(t *testing.T, name, version string) func() string {
	t.Helper()
	c, _ := e.workload(t, name)
	return func() string {
		nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
		if err != nil {
			return err.Error()
		}
		for _, n := range nodes.Items {
			if n.Status.NodeInfo.KubeletVersion != version {
				return fmt.Sprintf("node %s runs %s", n.Name, n.Status.NodeInfo.KubeletVersion)
			}
		}
		return ""
	}
}

// tenths returns a duration in seconds, with one decimal.
func tenths(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

// etcdOf returns the tags of the images of a cluster's stacked etcd, each once.
func (e *environment) etcdOf(t *testing.T, name string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	pods, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(context.Background(), metav1.ListOptions{LabelSelector: "component=etcd"})
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, p := range pods.Items {
		tags = append(tags, tagOf(p.Spec.Containers[0]))
	}
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ", ")
}

func tagOf(c corev1.Container) string {
	_, tag, _ := strings.Cut(c.Image, ":")
	return tag
}
