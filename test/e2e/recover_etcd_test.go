//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// recoverEtcd: a control plane has its etcd on three machines of their own. Two of these die, and etcd is made again from the member that
// is left; then all of them die, and it is made again from a backup. The machine of the control plane stays, and nothing is lost that the
// source held.
func recoverEtcd(t *testing.T, e *environment) {
	const name = "oscar"
	e.up(t, name, "--replicas", "1", "--etcd", "3", "--backup", "@daily")
	e.etcdSettled(t, name, 3)
	eventually(t, "a healthy node", patience, e.healthy(t, name, 1))
	controlPlane := e.machines(t, name)

	old := e.etcdMachineNames(t, name)
	held := e.writes(t, name, 5*time.Second)
	e.quorate(t, "machine", "stop", old[0], old[2])
	e.etcdLost(t, name, recoveryPossible+"the etcd member on "+old[1])
	e.etcdRecovers(t, name, old)
	if n := held.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost, which the survivor held", n, len(held.acknowledged))
	}
	t.Logf("FIGURE acknowledged writes before the loss of two of three: %d, lost 0", len(held.acknowledged))

	old = e.etcdMachineNames(t, name)
	held = e.writes(t, name, 5*time.Second)
	e.quorate(t, "backup", "now", name)
	all := e.backups(t, name)
	newest := all[len(all)-1].Name
	after := e.writes(t, name, 2*time.Second)
	e.quorate(t, append([]string{"machine", "stop"}, old...)...)
	e.etcdLost(t, name, "backup "+newest)
	e.etcdRecovers(t, name, old, "--from", newest)
	if n := held.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost, which the backup held", n, len(held.acknowledged))
	}
	t.Logf("FIGURE acknowledged writes before the backup: %d, lost 0; after it: %d, lost %d",
		len(held.acknowledged), len(after.acknowledged), after.lost(context.Background(), t))
	if now := e.machines(t, name); !slices.Equal(now, controlPlane) {
		t.Errorf("the control plane's machines were %v and are %v", controlPlane, now)
	}
	e.hasNothingToDo(t, name)
	e.takeDown(t, name)
}

// etcdLost waits until an EtcdCluster says what it can be recovered from.
func (e *environment) etcdLost(t *testing.T, name, from string) {
	t.Helper()
	told(t, from, func() (reason, message string) {
		p := e.etcdClusterOf(t, name).Status.Plan
		return p.Reason, p.Message
	})
}

// etcdRecovers runs quorate recover under writes, and waits until three new members vote and the API server serves.
func (e *environment) etcdRecovers(t *testing.T, name string, old []string, flags ...string) {
	t.Helper()
	c, _ := e.workload(t, name)
	w := newWriter(c)
	end := w.begin(t)
	start := time.Now()
	out := e.quorate(t, append([]string{"recover", name, "--yes", "--timeout", "15m"}, flags...)...)
	ended := time.Now()
	t.Logf("FIGURE recovery of etcd on machines of its own: %.1f s from the command to its end; it printed:\n%s", ended.Sub(start).Seconds(),
		out)
	eventually(t, "a write is accepted after the recovery", patience, func() string {
		if w.firstAfter(ended) == 0 {
			return "none was"
		}
		return ""
	})
	e.etcdReplaced(t, name, old)
	t.Logf("FIGURE recovery of etcd on machines of its own: three voters %.1f s after the command", time.Since(start).Seconds())
	eventually(t, "a healthy node", patience, e.healthy(t, name, 1))
	end()
	after := w.between(ended, time.Time{})
	t.Logf("FIGURE recovery of etcd on machines of its own: first write accepted %.1f s after the end", w.firstAfter(ended).Seconds())
	if n := after.missing(t); n > 0 {
		t.Errorf("%d of %d writes are lost that were acknowledged after the recovery", n, len(after.acknowledged))
	}
	if list := e.quorate(t, "machine", "list"); slices.ContainsFunc(old, func(m string) bool { return strings.Contains(list, m+" ") }) {
		t.Errorf("machines that were given up are still there:\n%s", list)
	}
}
