//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// hibernate: a cluster with a worker hibernates: all machines go. It wakes from the backup that hibernation took: what was written before
// is there, and the worker comes back.
func hibernate(t *testing.T, e *environment) {
	const name = "zulu"
	e.up(t, name, "--replicas", "1", "--workers", "1", "--backup", "@daily")
	eventually(t, "two healthy nodes", patience, e.healthy(t, name, 2))
	old := namesOf(e.machinesWith(t, clusterLabels(name)))
	written := e.writes(t, name, 5*time.Second)
	start := time.Now()
	out := e.quorate(t, "hibernate", name, "--yes", "--timeout", "10m")
	t.Logf("FIGURE hibernation: %.1f s from the command until no machine was left; it printed:\n%s", time.Since(start).Seconds(), out)
	if left := namesOf(e.machinesWith(t, clusterLabels(name))); len(left) > 0 {
		t.Errorf("machines %v are left", left)
	}
	if list := e.quorate(t, "machine", "list"); slices.ContainsFunc(old, func(m string) bool { return strings.Contains(list, m+" ") }) {
		t.Errorf("machines are left:\n%s", list)
	}
	kcp := e.controlPlane(t, name)
	if !conditions.IsTrue(kcp, controlplanev1.HibernatedCondition) || !conditions.IsTrue(kcp, controlplanev1.BackupCurrentCondition) {
		t.Errorf("the conditions are %+v", kcp.Status.Conditions)
	}
	e.wakes(t, name, written)
	if now := namesOf(e.machinesWith(t, clusterLabels(name))); len(now) != len(old) ||
		slices.ContainsFunc(now, func(m string) bool { return slices.Contains(old, m) }) {
		t.Errorf("machines are %v, and were %v", now, old)
	}
	e.hasNothingToDo(t, name)
	e.takeDown(t, name)
}

// wakes has a hibernated cluster of one machine and a worker run again.
func (e *environment) wakes(t *testing.T, name string, written *writer) {
	t.Helper()
	c, _ := e.workload(t, name)
	w := newWriter(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	start := time.Now()
	out := e.quorate(t, "wake", name, "--yes", "--timeout", "15m")
	t.Logf("FIGURE waking: %.1f s from the command to its end; first write accepted %.1f s after the command; it printed:\n%s",
		time.Since(start).Seconds(), w.firstAfter(start).Seconds(), out)
	eventually(t, "two healthy nodes", patience, e.healthy(t, name, 2))
	t.Logf("FIGURE waking: the worker was ready %.1f s after the command", time.Since(start).Seconds())
	cancel()
	<-done
	if n := written.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d writes are lost that were acknowledged before the hibernation", n, len(written.acknowledged))
	}
	if n := w.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d writes are lost that were acknowledged since it woke", n, len(w.acknowledged))
	}
	t.Logf("FIGURE writes before the hibernation: %d, lost 0", len(written.acknowledged))
}
