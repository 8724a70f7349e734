//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// How long a Node may not be ready before its machine is replaced: hardly at all, and longer than any sickness here lasts.
const (
	atOnceSeconds = 10
	laterSeconds  = 3600
)

// machinesRepair: a ControlPlane's own health check has one broken machine of three replaced, and two of five. In between somebody
// scales out, and then in, while a member is sick: both wait for it, and go on by themselves.
func machinesRepair(t *testing.T, e *environment) {
	const name = "xray"
	e.startMachines(t, name, 3)
	e.settled(t, name, 3)
	e.replacesBroken(t, name, 3, 1)
	e.waitsForSick(t, name, 3, 5)
	e.replacesBroken(t, name, 5, 2)
	e.waitsForSick(t, name, 5, 3)
	e.takeDown(t, name)
}

// replacesBroken stops so many machines, and waits until others have taken their place.
func (e *environment) replacesBroken(t *testing.T, name string, replicas, broken int) {
	t.Helper()
	e.repairsAfter(t, name, atOnceSeconds)
	e.checked(t, name, replicas, broken)
	victims := e.machines(t, name)[:broken]
	start := time.Now()
	e.quorate(t, append([]string{"machine", "stop"}, victims...)...)
	eventually(t, "the health check has found the first", patience, func() string {
		if cp := e.machinesOf(t, name); !slices.Contains(victims, cp.Status.LastRemediation.Machine) {
			return cp.Status.Plan.Message
		}
		return ""
	})
	found := time.Now()
	eventually(t, "they are replaced", patience, func() string {
		for _, m := range e.machines(t, name) {
			if slices.Contains(victims, m) {
				return m + " is there: " + e.machinesOf(t, name).Status.Plan.Message
			}
		}
		return ""
	})
	e.settled(t, name, replicas)
	t.Logf("FIGURE %d dead of %d to all healthy again: %.1f s, of these %.1f s from the health check's verdict", broken, replicas,
		time.Since(start).Seconds(), time.Since(found).Seconds())
}

// repairsAfter sets how long a Node may not be ready.
func (e *environment) repairsAfter(t *testing.T, name string, seconds int32) {
	t.Helper()
	e.alter(t, name, func(cp *controlplanev1alpha1.ControlPlane) {
		cp.Spec.Health.UnhealthyTimeoutSeconds = ptr.To(seconds)
	})
	eventually(t, "the health check follows", patience, func() string {
		return e.healthCheck(t, name, func(check *clusterv1.MachineHealthCheck) string {
			for _, c := range check.Spec.Checks.UnhealthyNodeConditions {
				if *c.TimeoutSeconds != seconds {
					return fmt.Sprintf("%s waits %d s", c.Status, *c.TimeoutSeconds)
				}
			}
			return ""
		})
	})
}

// checked waits until the ControlPlane's health check lets so many be replaced, and finds all machines healthy.
func (e *environment) checked(t *testing.T, name string, replicas, limit int) {
	t.Helper()
	eventually(t, "the health check knows all machines", patience, func() string {
		return e.healthCheck(t, name, func(check *clusterv1.MachineHealthCheck) string {
			if got := check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo; got == nil || got.IntValue() != limit {
				return fmt.Sprintf("its limit is %v, want %d", got, limit)
			}
			if n := ptr.Deref(check.Status.CurrentHealthy, 0); int(n) != replicas {
				return fmt.Sprintf("%d of %d machines are healthy", n, replicas)
			}
			return ""
		})
	})
}

// healthCheck says what is missing of a ControlPlane's own MachineHealthCheck.
func (e *environment) healthCheck(t *testing.T, name string, missing func(*clusterv1.MachineHealthCheck) string) string {
	t.Helper()
	cp, check := e.machinesOf(t, name), &clusterv1.MachineHealthCheck{}
	if err := e.management(t).Get(context.Background(), client.ObjectKeyFromObject(cp), check); err != nil {
		return err.Error()
	}
	if !metav1.IsControlledBy(check, cp) {
		return fmt.Sprintf("it is controlled by %v", check.OwnerReferences)
	}
	return missing(check)
}

// waitsForSick freezes a machine with its member and scales meanwhile. Until it goes on no other machine comes or goes, no write is
// lost, and the ControlPlane names what it waits for.
func (e *environment) waitsForSick(t *testing.T, name string, from, to int) {
	t.Helper()
	e.repairsAfter(t, name, laterSeconds)
	e.settled(t, name, from)
	before := e.identities(t, name)
	leader := e.leader(t, e.machines(t, name))
	sick := e.oldest(t, name, leader)
	e.observed(t, name, "Quorate", func() {
		e.quorate(t, "machine", "pause", sick)
		eventually(t, "the sick member is seen", patience, func() string {
			c := conditions.Get(e.machinesOf(t, name), kubeadmv1.KubeadmControlPlaneEtcdClusterHealthyCondition)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, sick) {
				return fmt.Sprint(c)
			}
			return ""
		})
		if err := e.scaleTo(t, name, to); err != nil {
			t.Fatal(err)
		}
		e.waitsFor(t, name, sick)
		ctx, stop := context.WithCancel(context.Background())
		seen := e.countMachines(t, ctx, clusterLabels(name))
		eventually(t, "its node is not ready", patience, func() string { return e.nodeReady(t, name, sick) })
		e.waitsFor(t, name, sick)
		stop()
		if got := <-seen; got != (counted{least: from, most: from}) {
			t.Errorf("while %s was sick there were %d to %d machines, want %d", sick, got.least, got.most, from)
		}
		if now := e.identities(t, name); !slices.Equal(now, before) {
			t.Errorf("while %s was sick the machines became\n%s, and were\n%s", sick, strings.Join(now, "\n"), strings.Join(before, "\n"))
		}
		if members, err := e.members(leader); err != nil || len(members) != from {
			t.Errorf("while %s was sick etcd had %d members, want %d: %v", sick, len(members), from, err)
		}
		start := time.Now()
		e.quorate(t, "machine", "resume", sick)
		e.settled(t, name, to)
		t.Logf("FIGURE the sick member well again, until %d machines are %d and healthy: %.1f s", from, to, time.Since(start).Seconds())
	})
}

// oldest is the machine that was made first, but for one.
func (e *environment) oldest(t *testing.T, name, but string) string {
	t.Helper()
	all := slices.DeleteFunc(e.machineObjects(t, name), func(m clusterv1.Machine) bool { return m.Name == but })
	return slices.MinFunc(all, func(a, b clusterv1.Machine) int { return machine.Compare(&a, &b) }).Name
}

// nodeReady says what is missing until a Node is not ready.
func (e *environment) nodeReady(t *testing.T, name, node string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	found, err := c.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return "it is ready"
		}
	}
	return ""
}
