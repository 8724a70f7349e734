//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// goneWithin bounds how long it takes until a machine is gone that hangs in its bootstrap, with what local infrastructure takes.
const goneWithin = 60 * time.Second

// hangs keeps machines from joining, and not the first from initialising.
const hangs = "[ ! -f /run/kubeadm/kubeadm-join-config.yaml ] || sleep 3600"

// joinHangs: the second machine of three hangs before kubeadm runs on it. It is replaced at once when it is marked, when somebody deletes
// it and when it is outdated, although a voter that it added late would cost the single one its quorum. A placeholder keeps it out, and
// none is left.
func joinHangs(t *testing.T, e *environment) {
	const name = "hotel"
	e.up(t, name, "--replicas", "1")
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Replicas, kcp.Spec.Joins.MaxParallel = ptr.To[int32](3), ptr.To[int32](1)
		kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands = append(kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands, hangs)
	})
	first := e.machines(t, name)[0]
	for _, way := range []struct {
		what string
		act  func(machine string)
	}{
		{"marked", func(m string) { e.markMachine(t, name, m) }},
		{"deleted by hand", func(m string) { e.deleteMachine(t, name, m) }},
		{"outdated", func(string) { e.letJoin(t, name) }},
	} {
		m := e.hanging(t, name, first)
		start := time.Now()
		way.act(m)
		gone := eventually(t, m+" is gone", patience, func() string {
			if slices.Contains(e.machines(t, name), m) {
				return e.controlPlane(t, name).Status.Plan.Message
			}
			return ""
		})
		eventually(t, "another is made", patience, func() string {
			if len(e.machines(t, name)) < 2 {
				return e.controlPlane(t, name).Status.Plan.Message
			}
			return ""
		})
		t.Logf("FIGURE a machine that hangs as second of three, %s: gone after %.1f s, another made after %.1f s", way.what, gone.Seconds(),
			time.Since(start).Seconds())
		if gone > goneWithin {
			t.Errorf("%s: it was gone after %s, want at most %s", way.what, gone, goneWithin)
		}
	}
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	e.takeDown(t, name)
}

// hanging waits until a machine hangs in its bootstrap, and returns its name.
func (e *environment) hanging(t *testing.T, name, first string) (found string) {
	t.Helper()
	eventually(t, "a machine hangs", patience, func() string {
		for _, m := range e.machines(t, name) {
			if m == first {
				continue
			}
			found = m
			if _, err := e.try("shell", m, "--", "pgrep", "-f", "sleep 3600"); err != nil {
				return fmt.Sprintf("%s has not come so far: %v", m, err)
			}
			return ""
		}
		return e.controlPlane(t, name).Status.Plan.Message
	})
	return found
}

// machineNamed returns a Machine of a control plane.
func (e *environment) machineNamed(t *testing.T, name, machine string) *clusterv1.Machine {
	t.Helper()
	all := e.machineObjects(t, name)
	at := slices.IndexFunc(all, func(m clusterv1.Machine) bool { return m.Name == machine })
	if at < 0 {
		t.Fatalf("%s is not there", machine)
	}
	return &all[at]
}

// markMachine marks a Machine to be replaced, as a health check does.
func (e *environment) markMachine(t *testing.T, name, machine string) {
	t.Helper()
	m := e.machineNamed(t, name, machine)
	before := m.DeepCopy()
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Hangs", Message: "it hangs in its bootstrap"})
	}
	if err := e.management(t).Status().Patch(context.Background(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// deleteMachine deletes a Machine, as kubectl does.
func (e *environment) deleteMachine(t *testing.T, name, machine string) {
	t.Helper()
	if err := e.management(t).Delete(context.Background(), e.machineNamed(t, name, machine)); err != nil {
		t.Fatal(err)
	}
}

// letJoin takes away what keeps machines from joining, so that those that were made with it are outdated.
func (e *environment) letJoin(t *testing.T, name string) {
	t.Helper()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		commands := &kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands
		*commands = slices.DeleteFunc(*commands, func(c string) bool { return c == hangs })
	})
}
