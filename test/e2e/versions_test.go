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

// nameOf is the name of a cell's cluster, of letters and digits that tell where a failure is from.
func nameOf(c compatibility.Cell) string {
	way := map[string]string{compatibility.InPlace: "place", compatibility.Rolled: "roll"}[c.Way]
	return fmt.Sprintf("%s%d-%s", way, c.Machines, strings.NewReplacer(".", "-", "v", "").Replace(c.From+"-"+c.To))
}

// cells are those of all pinned versions; those of FROM and TO only, where these are given.
func cells() []compatibility.Cell {
	if os.Getenv("QUORATE_E2E_FROM")+os.Getenv("QUORATE_E2E_TO") != "" {
		return compatibility.Ways(older, newer)
	}
	return compatibility.Upgrades()
}

// versions: clusters go from one version to another, replaced and in place, under a client that writes. It prints a line for each way, and
// writes it into the file that QUORATE_E2E_CELLS names.
//
//quorate:shows kubernetes created each
//quorate:shows kubernetes replaced each
//quorate:shows kubernetes in-place each
func versions(t *testing.T, e *environment) {
	all, failed, runs := cells(), 0, []compatibility.Measured{}
	for _, c := range all {
		run := compatibility.Measured{Cell: c, Date: time.Now().UTC().Format(time.DateOnly)}
		run.Passed = t.Run(nameOf(c), func(t *testing.T) { e.upgradeCell(t, &run) })
		if !run.Passed {
			failed++
			e.tellWhy(t)
			e.clear(t)
		}
		runs = append(runs, run)
		if file := os.Getenv("QUORATE_E2E_CELLS"); file != "" {
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
	c, name := run.Cell, nameOf(run.Cell)
	e.quorate(t, "artifacts", "build", c.From, c.To) // the plane would build them too, for minutes in the middle
	e.up(t, name, "--replicas", strconv.Itoa(c.Machines), "--workers", strconv.Itoa(c.Workers), "--kubernetes-version", c.From)
	before := e.etcdOf(t, name)
	machines := uids(e.machineObjects(t, name))
	client, lost := e.underWrites(t, name, func() {
		args := []string{"--kubernetes-version", c.To}
		if c.Way == compatibility.InPlace {
			args = append(args, "--in-place=Only")
		}
		run.Seconds = e.up(t, name, args...).Seconds()
		eventually(t, "all voters", patience, e.quorumOf(t, name, c.Machines))
		eventually(t, "all nodes healthy", patience, e.healthy(t, name, c.Machines+c.Workers))
	})
	run.Writes, run.Failed, run.Lost, run.Gap = client.tried, client.failed, lost, client.gap.Seconds()
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
