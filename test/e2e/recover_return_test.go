//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// recoverSingle: the only machine of a control plane loses its disk. Its successor serves what the backup held.
func recoverSingle(t *testing.T, e *environment) {
	const name = "yankee"
	e.recoverDrilled(t, name, drill{machines: 1, lost: 1, fault: wiped})
}

// recoverReturn: two of three machines are lost, and come back: once while the recovery waits for them to go, once after its end, declared
// off by a person. The endpoint never serves the old cluster after the recovery, and no old member is one of the new cluster.
func recoverReturn(t *testing.T, e *environment) {
	const name = "zulu"
	e.recoverDrilled(t, name, drill{machines: 3, lost: 2, fault: returning}, drill{machines: 3, lost: 2, fault: returned})
}

// recoverDrilled drills one cluster, one drill after the other.
func (e *environment) recoverDrilled(t *testing.T, name string, all ...drill) {
	t.Helper()
	var table []drilled
	for _, d := range all {
		e.resizeControlPlane(t, name, d.machines)
		r := drilled{Drill: d.String()}
		e.drill(t, name, d, &r)
		table = append(table, r)
	}
	tellDrills(t, table)
	e.takeDown(t, name)
}

// recoverForwardOnly: where etcd is reached through the API server alone, no survivor can be read. That is told, a recovery from a survivor
// is refused, and one from a backup works.
func recoverForwardOnly(t *testing.T, e *environment) {
	const name = "quebec"
	t.Setenv("QUORATE_ETCD_FORWARD_ONLY", "true")
	e.restartDaemon(t)
	t.Cleanup(func() { e.restartDaemon(t) }) // without the variable, which is unset after this test
	old := e.losable(t, name)
	kept := e.writes(t, name, 5*time.Second)
	e.quorate(t, "backup", "now", name)
	all := e.backups(t, name)
	newest := all[len(all)-1].Name
	e.quorate(t, "machine", "stop", old[0], old[1])
	eventually(t, "it is told that no member can be read, and which backup there is", patience, func() string {
		p := e.controlPlane(t, name).Status.Plan
		if !strings.Contains(p.Message, "no member can be read") || !strings.Contains(p.Message, recoveryPossible+"backup "+newest) {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	if out, err := e.try("recover", name, "--yes", "--timeout", "5m"); err == nil || !strings.Contains(err.Error(), "--etcd-forward-only") {
		t.Errorf("a recovery from a survivor that nobody can read: %v\n%s", err, out)
	}
	e.quorate(t, "recover", name, "--abort")
	e.recovers(t, name, old, "--from", newest)
	if n := kept.missing(t); n > 0 {
		t.Errorf("%d of %d writes are lost that the backup held", n, len(kept.acknowledged))
	}
	e.takeDown(t, name)
}
