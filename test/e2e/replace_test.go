//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// replace: one of three machines is replaced by quorate replace, a new one first, while a client writes. The others stay, and what asked
// for it is inert afterwards. The leader is replaced the same way by the annotation, as Git would write it.
func replace(t *testing.T, e *environment) {
	const name = "yankee"
	e.up(t, name, "--replicas", "3")
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	replaced := func(old string, by func()) {
		before := e.machines(t, name)
		ctx, stop := context.WithCancel(t.Context())
		seen := e.countMachines(t, ctx, clusterLabels(name))
		start := time.Now()
		w, lost := e.underWrites(t, name, by)
		t.Logf("FIGURE replacement of %s: %.1f s from the request until all was as wanted; %d acknowledged writes lost",
			old, time.Since(start).Seconds(), lost)
		if w.failed > 0 {
			t.Errorf("%d writes failed: %q", w.failed, w.errors)
		}
		checkGap(t, w.gap, 3)
		e.hasNothingToDo(t, name)
		stop()
		now := e.machines(t, name)
		if same := slices.DeleteFunc(slices.Clone(before), func(m string) bool { return !slices.Contains(now, m) }); len(now) != 3 ||
			len(same) != 2 || slices.Contains(now, old) {
			t.Errorf("%s was to be replaced; machines are %v, and were %v", old, now, before)
		}
		if got := <-seen; got.most != 4 {
			t.Errorf("there were up to %d machines at once, want 4: a new one first", got.most)
		}
	}
	middle := e.machines(t, name)[1]
	replaced(middle, func() {
		t.Logf("it printed:\n%s", e.quorate(t, "replace", middle, "--yes", "--timeout", "10m"))
	})
	leader := e.leader(t, e.machines(t, name))
	replaced(leader, func() {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Annotations[controlplanev1.ReplaceAnnotation] = leader + "=" + time.Now().UTC().Format(time.RFC3339) + "," + middle + "=" +
				time.Now().UTC().Format(time.RFC3339)
		})
		eventually(t, "the machine is gone, and all is as wanted", patience, func() string {
			if p := e.controlPlane(t, name).Status.Plan; slices.Contains(e.machines(t, name), leader) || p.Reason != "AsWanted" {
				return p.Message
			}
			return ""
		})
	})
	if asked, err := machine.ParseAsked(e.controlPlane(t, name).Annotations[controlplanev1.ReplaceAnnotation]); err != nil || len(asked) != 2 {
		t.Errorf("asked is %v, %v: what Git writes stays", asked, err)
	}
	e.takeDown(t, name)
}
