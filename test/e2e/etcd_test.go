//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// etcdCreate: one command makes an etcd cluster of three and a control plane of three that keeps its data there. Etcd goes from three
// to five and back and is rolled over, and no machine of the control plane is touched, because the endpoint stays.
func etcdCreate(t *testing.T, e *environment) { e.etcdCreated(t, "yankee") }

// etcdCreated makes a cluster with etcd on machines of its own, and takes these through a rollout, scaling and a repair.
func (e *environment) etcdCreated(t *testing.T, name string, args ...string) {
	t.Helper()
	took := e.up(t, name, append(args, "--replicas", "3", "--etcd", "3")...)
	t.Logf("FIGURE three machines of etcd and three of the control plane on it: %.1f s", took.Seconds())
	e.etcdSettled(t, name, 3)
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	controlPlane := e.machines(t, name)

	ctx, stop := context.WithCancel(context.Background())
	seen := e.countMachines(t, ctx, etcdLabels(name))
	gap := e.written(t, name, func() {
		before := e.etcdMachineNames(t, name)
		start := time.Now()
		e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) {
			c.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true"}
		})
		e.etcdReplaced(t, name, before)
		t.Logf("FIGURE three machines of etcd replaced: %.1f s", time.Since(start).Seconds())
	})
	stop()
	if most := (<-seen).most; most != 4 {
		t.Errorf("there were up to %d machines of etcd, want 4", most)
	}
	if gap > 2*time.Second {
		t.Errorf("for %s no write was acknowledged, want at most 2 s", gap)
	}
	for _, replicas := range []int32{5, 3} {
		e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Replicas = ptr.To(replicas) })
		e.etcdSettled(t, name, int(replicas))
	}
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) {
		c.Spec.AutoRepair = &etcdclusterv1alpha1.AutoRepairSpec{UnhealthyTimeoutSeconds: ptr.To(int32(5))}
	})
	victim := e.etcdMachineNames(t, name)[0]
	e.quorate(t, "machine", "stop", victim)
	eventually(t, "another machine in the place of "+victim, 2*patience, func() string {
		if names := e.etcdMachineNames(t, name); slices.Contains(names, victim) {
			return fmt.Sprintf("%v; %s", names, e.etcdClusterOf(t, name).Status.Plan.Message)
		}
		return ""
	})
	e.etcdSettled(t, name, 3)
	if after := e.machines(t, name); !slices.Equal(after, controlPlane) {
		t.Errorf("the control plane's machines were %v and are %v", controlPlane, after)
	}
	e.takeDown(t, name)
}

// etcdClusterOf is a cluster's EtcdCluster.
func (e *environment) etcdClusterOf(t *testing.T, name string) *etcdclusterv1alpha1.EtcdCluster {
	t.Helper()
	found := &etcdclusterv1alpha1.EtcdCluster{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name + "-etcd"}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// changeEtcd changes a cluster's EtcdCluster as a user does.
func (e *environment) changeEtcd(t *testing.T, name string, f func(*etcdclusterv1alpha1.EtcdCluster)) {
	t.Helper()
	found := e.etcdClusterOf(t, name)
	before := found.DeepCopy()
	f(found)
	if err := e.management(t).Patch(context.Background(), found, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// etcdLabels are on the Machines of a cluster's etcd.
func etcdLabels(name string) client.MatchingLabels {
	return client.MatchingLabels{etcdclusterv1alpha1.MachineLabel: name + "-etcd"}
}

// etcdMachineNames are the names of the Machines of a cluster's etcd, sorted.
func (e *environment) etcdMachineNames(t *testing.T, name string) []string {
	t.Helper()
	return namesOf(e.machinesWith(t, etcdLabels(name)))
}

// etcdReplaced waits until none of the machines is there that there were before, and an EtcdCluster of three has nothing to do.
func (e *environment) etcdReplaced(t *testing.T, name string, before []string) {
	t.Helper()
	eventually(t, "other members", 2*patience, func() string {
		for _, m := range e.etcdMachineNames(t, name) {
			if slices.Contains(before, m) {
				return m + " is there: " + e.etcdClusterOf(t, name).Status.Plan.Message
			}
		}
		return ""
	})
	e.etcdSettled(t, name, 3)
}

// etcdSettled waits until an EtcdCluster has nothing to do, and its members are so many voters.
func (e *environment) etcdSettled(t *testing.T, name string, replicas int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d members of etcd, nothing to do", replicas), 2*patience, func() string {
		c := e.etcdClusterOf(t, name)
		s := c.Status
		if int(ptr.Deref(s.ReadyReplicas, 0)) != replicas || int(ptr.Deref(s.Replicas, 0)) != replicas || s.ObservedGeneration != c.Generation ||
			s.Plan.Step != "Nothing" {
			return fmt.Sprintf("%d machines, %d ready; %s: %s", ptr.Deref(s.Replicas, 0), ptr.Deref(s.ReadyReplicas, 0), s.Plan.Step, s.Plan.Message)
		}
		return ""
	})
	eventually(t, fmt.Sprintf("%d voters", replicas), patience, e.etcdVoters(e.etcdMachineNames(t, name)[0], replicas))
	e.recordAtRest(t, name)
}
