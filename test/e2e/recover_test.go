//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// recoverSurvivor: two of three machines die, and the control plane is made again from the member that is left. Nothing that was
// acknowledged is lost, and the workers and their pods stay.
func recoverSurvivor(t *testing.T, e *environment) {
	const name = "victor"
	old := e.losable(t, name)
	before := e.writes(t, name, 5*time.Second)
	e.quorate(t, "machine", "stop", old[0], old[1])
	told(t, recoveryPossible, e.said(t, name))
	e.recovers(t, name, old)
	if n := before.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost, which the survivor held", n, len(before.acknowledged))
	}
	t.Logf("FIGURE acknowledged writes before the loss: %d, lost 0", len(before.acknowledged))
	e.takeDown(t, name)
}

// recoverAll: all machines die, and the control plane is made again from a backup. What was written after it is lost, and nothing else.
func recoverAll(t *testing.T, e *environment) {
	const name = "whiskey"
	e.up(t, name, "--replicas", "3", "--workers", "1", "--backup", "@daily")
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	eventually(t, "four healthy nodes", patience, e.healthy(t, name, 4))
	old, addresses := e.machines(t, name), e.addresses(t, name)
	users := e.usersOf(t, name)
	kept := e.writes(t, name, 5*time.Second)
	e.quorate(t, "backup", "now", name)
	after := e.writes(t, name, 3*time.Second)
	all := e.backups(t, name)
	newest := all[len(all)-1].Name
	e.quorate(t, append([]string{"machine", "stop"}, old...)...)
	e.recovered(t, name, old, 4, func() { users.recovered(t, old, addresses) }, "--from", newest)
	if n := kept.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d writes are lost that the backup held", n, len(kept.acknowledged))
	}
	t.Logf("FIGURE writes before the backup: %d, lost 0; writes after it: %d, lost %d",
		len(kept.acknowledged), len(after.acknowledged), after.lost(context.Background(), t))
	e.takeDown(t, name)
}

// losable makes a control plane of three with the encrypted backups that every cluster of quorate up has, and returns the machines.
func (e *environment) losable(t *testing.T, name string) []string {
	t.Helper()
	e.up(t, name, "--replicas", "3", "--backup", "@daily")
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	return e.machines(t, name)
}

// writes writes for a while.
func (e *environment) writes(t *testing.T, name string, during time.Duration) *writer {
	t.Helper()
	c, _ := e.workload(t, name)
	w := newWriter(c)
	ctx, cancel := context.WithTimeout(context.Background(), during)
	defer cancel()
	w.run(ctx)
	return w
}

func (e *environment) reasonIs(t *testing.T, name, want string) func() string {
	return func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != want {
			return p.Reason + ": " + p.Message
		}
		return ""
	}
}

// recovers runs quorate recover and waits until all is as wanted again: three new machines, their Nodes, and none of the old ones.
func (e *environment) recovers(t *testing.T, name string, old []string, flags ...string) {
	t.Helper()
	e.recovered(t, name, old, 3, func() {}, flags...)
}

// addresses are those of the cluster's control plane machines.
func (e *environment) addresses(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	for _, m := range e.machineObjects(t, name) {
		all = append(all, machine.InternalIP(&m))
	}
	return all
}

// recovered is recovers for a cluster of so many nodes; look is called when the recovery has ended.
func (e *environment) recovered(t *testing.T, name string, old []string, nodes int, look func(), flags ...string) {
	t.Helper()
	c, _ := e.workload(t, name)
	w := newWriter(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	start := time.Now()
	out := e.quorate(t, append([]string{"recover", name, "--yes", "--timeout", "15m"}, flags...)...)
	t.Logf("FIGURE recovery: %.1f s from the command to its end; first write accepted %.1f s after the command; it printed:\n%s",
		time.Since(start).Seconds(), w.firstAfter(start).Seconds(), out)
	look()
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	t.Logf("FIGURE recovery: three voters %.1f s after the command", time.Since(start).Seconds())
	eventually(t, "all nodes are healthy", patience, e.healthy(t, name, nodes))
	cancel()
	<-done
	now := e.machines(t, name)
	if slices.ContainsFunc(now, func(m string) bool { return slices.Contains(old, m) }) {
		t.Errorf("machines are %v, and %v were given up", now, old)
	}
	list, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		if slices.Contains(old, n.Name) {
			t.Errorf("Node %s of a machine that was given up is still there", n.Name)
		}
	}
	if list := e.quorate(t, "machine", "list"); slices.ContainsFunc(old, func(m string) bool { return strings.Contains(list, m+" ") }) {
		t.Errorf("machines that were given up are still there:\n%s", list)
	}
	if n := w.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d writes are lost that were acknowledged during the recovery", n, len(w.acknowledged))
	}
	e.hasNothingToDo(t, name)
}
