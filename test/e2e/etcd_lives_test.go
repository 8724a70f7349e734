//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// etcdScale: etcd on machines of its own goes from one member to three, five and back to three, under a client that goes on writing.
func etcdScale(t *testing.T, e *environment) {
	const name = "etcd-scaled"
	e.up(t, name, "--replicas", "1", "--etcd", "1")
	e.etcdSettled(t, name, 1)
	controlPlane := e.machines(t, name)
	gap := e.written(t, name, func() {
		for _, replicas := range []int{3, 5, 3} {
			start := time.Now()
			e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Replicas = ptr.To(int32(replicas)) })
			e.etcdSettled(t, name, replicas)
			t.Logf("FIGURE etcd on machines of its own to %d: %.1f s", replicas, time.Since(start).Seconds())
		}
	})
	if gap > 2*time.Second {
		t.Errorf("for %s no write was acknowledged, want at most 2 s", gap)
	}
	e.sameControlPlane(t, name, controlPlane)
	if out := e.quorate(t, "status", name); !strings.Contains(out, "etcd cluster etcd-scaled-etcd  v3.6.16  3 of 3 ready") ||
		!strings.Contains(out, "quorum 2 of 3, can stand 1 failure") {
		t.Errorf("the status is\n%s", out)
	}
	if out := e.quorate(t, "explain", name, "--etcd"); !strings.Contains(out, "next        Nothing") ||
		!strings.Contains(out, "3 of 3 voters healthy") {
		t.Errorf("explained is\n%s", out)
	}
	e.takeDown(t, name)
}

// sameControlPlane verifies that no machine of the control plane was touched.
func (e *environment) sameControlPlane(t *testing.T, name string, before []string) {
	t.Helper()
	if now := e.machines(t, name); !slices.Equal(now, before) {
		t.Errorf("the control plane's machines were %v and are %v", before, now)
	}
}

// etcdRepair: of five members one dies, then two, then the leader; the leader's machine is deleted by hand; and the daemon is killed
// while a member is replaced. No write is lost, and the control plane is not touched.
func etcdRepair(t *testing.T, e *environment) {
	const name = "etcd-repaired"
	e.up(t, name, "--replicas", "1", "--etcd", "5")
	e.etcdSettled(t, name, 5)
	controlPlane := e.machines(t, name)
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) {
		c.Spec.AutoRepair = &etcdclusterv1alpha1.AutoRepairSpec{UnhealthyTimeoutSeconds: ptr.To(int32(5))}
	})
	e.written(t, name, func() {
		for _, dead := range []int{1, 2} {
			victims := e.etcdFollowers(t, name)[:dead]
			e.etcdHealed(t, name, fmt.Sprintf("%d of 5 members dead", dead), victims, func() {
				e.quorate(t, append([]string{"machine", "stop"}, victims...)...)
			})
		}
		next := e.etcdFollowers(t, name)[0]
		e.etcdHealed(t, name, "the daemon killed while a member is replaced", []string{next}, func() {
			known := e.etcdMachineNames(t, name)
			e.quorate(t, "machine", "stop", next)
			eventually(t, "another machine is made", patience, func() string {
				for _, m := range e.etcdMachineNames(t, name) {
					if !slices.Contains(known, m) {
						return ""
					}
				}
				return e.etcdClusterOf(t, name).Status.Plan.Message
			})
			killDaemon(t, e)
			e.quorate(t, "up", "--network", e.network, "--name", name, "--wait=false")
		})
		leader := e.etcdLeader(t, name)
		e.etcdHealed(t, name, "the leader's machine deleted by hand", []string{leader}, func() { deleteMachine(t, e, leader) })
	})
	gap := e.written(t, name, func() {
		leader := e.etcdLeader(t, name)
		e.etcdHealed(t, name, "the leader's machine dead", []string{leader}, func() { e.quorate(t, "machine", "stop", leader) })
	})
	// An election takes one to two seconds; who waits for the dead leader itself is told after seven.
	if gap > 2*time.Second {
		t.Errorf("the leader's machine died, and for %s no write was acknowledged, want at most 2 s", gap)
	}
	e.sameControlPlane(t, name, controlPlane)
	e.takeDown(t, name)
}

// etcdHealed hurts members of five, and waits until others have taken the places of their machines.
func (e *environment) etcdHealed(t *testing.T, name, what string, machines []string, hurt func()) {
	t.Helper()
	start := time.Now()
	hurt()
	eventually(t, what+": others in the place of "+strings.Join(machines, " and "), 2*patience, func() string {
		for _, m := range e.etcdMachineNames(t, name) {
			if slices.Contains(machines, m) {
				return m + " is there: " + e.etcdClusterOf(t, name).Status.Plan.Message
			}
		}
		return ""
	})
	e.etcdSettled(t, name, 5)
	t.Logf("FIGURE %s, to five voters again: %.1f s", what, time.Since(start).Seconds())
}

// etcdFollowers are the machines of a cluster's etcd, but the leader's.
func (e *environment) etcdFollowers(t *testing.T, name string) []string {
	t.Helper()
	leader := e.etcdLeader(t, name)
	return slices.DeleteFunc(e.etcdMachineNames(t, name), func(m string) bool { return m == leader })
}

// etcdLeader is the machine whose member leads a cluster's etcd.
func (e *environment) etcdLeader(t *testing.T, name string) string {
	t.Helper()
	var leader string
	eventually(t, "a leader", patience, func() string {
		for _, m := range e.etcdMachineNames(t, name) {
			var status []struct {
				Status struct {
					Header struct {
						MemberID uint64 `json:"member_id"`
					} `json:"header"`
					Leader uint64 `json:"leader"`
				} `json:"Status"`
			}
			out, err := e.etcdOn(m, "endpoint", "status", "-w", "json")
			if err == nil {
				err = json.Unmarshal([]byte(out), &status)
			}
			if err == nil && len(status) == 1 && status[0].Status.Leader == status[0].Status.Header.MemberID {
				leader = m
				return ""
			}
		}
		return "no member says that it leads"
	})
	return leader
}

// etcdDelete: etcd is paused while the control plane rolls, and the other way round. Etcd that is deleted first stays while the control
// plane is there, and says so; with the Cluster the control plane goes first. Deleted one by one, each goes.
func etcdDelete(t *testing.T, e *environment) {
	const name = "etcd-deleted"
	e.up(t, name, "--replicas", "1", "--etcd", "3")
	e.etcdSettled(t, name, 3)
	e.rollsBesidePaused(t, name)

	if err := e.management(t).Delete(context.Background(), e.etcdClusterOf(t, name)); err != nil {
		t.Fatal(err)
	}
	controlPlane := e.machines(t, name)
	eventually(t, "etcd, deleted first, says for whom it waits", patience, func() string {
		if p := e.etcdClusterOf(t, name).Status.Plan; p.Reason != "WorkersRemain" || !strings.Contains(p.Message, controlPlane[0]) {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	e.written(t, name, func() { // it keeps all its members
		e.etcdSettledIn(t, name, 3)
	})
	ctx, stop := context.WithCancel(context.Background())
	early := e.etcdGoesLast(t, ctx, name)
	e.takeDown(t, name)
	stop()
	if found := <-early; found != "" {
		t.Error(found)
	}

	const apart = "etcd-apart"
	e.up(t, apart, "--replicas", "1", "--etcd", "1")
	for _, o := range []client.Object{e.controlPlane(t, apart), e.etcdClusterOf(t, apart)} {
		if err := e.management(t).Delete(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		eventually(t, o.GetName()+" is gone", patience, func() string {
			if err := e.management(t).Get(context.Background(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("it is there: %v", err)
			}
			return ""
		})
	}
	e.takeDown(t, apart)
}

// rollsBesidePaused replaces the machine of the control plane while etcd is paused, and those of etcd while the control plane is.
func (e *environment) rollsBesidePaused(t *testing.T, name string) {
	t.Helper()
	pause := func(o client.Object, paused bool) {
		before := o.DeepCopyObject().(client.Object)
		annotations := map[string]string{}
		if paused {
			annotations[clusterv1.PausedAnnotation] = ""
		}
		for key, value := range o.GetAnnotations() {
			if key != clusterv1.PausedAnnotation {
				annotations[key] = value
			}
		}
		o.SetAnnotations(annotations)
		if err := e.management(t).Patch(context.Background(), o, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	members, before := e.etcdMachineNames(t, name), e.machines(t, name)
	pause(e.etcdClusterOf(t, name), true)
	e.written(t, name, func() {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
		})
		eventually(t, "another machine of the control plane beside paused etcd", 2*patience, func() string {
			kcp := e.controlPlane(t, name)
			if now := e.machines(t, name); slices.Contains(now, before[0]) || len(now) != 1 || kcp.Status.Plan.Step != "Nothing" {
				return fmt.Sprintf("machines %v: %s", now, kcp.Status.Plan.Message)
			}
			return ""
		})
	})
	if now := e.etcdMachineNames(t, name); !slices.Equal(now, members) {
		t.Errorf("paused etcd had %v and has %v", members, now)
	}
	controlPlane := e.machines(t, name)
	pause(e.controlPlane(t, name), true)
	pause(e.etcdClusterOf(t, name), false)
	e.written(t, name, func() {
		e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) {
			c.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true"}
		})
		e.etcdReplaced(t, name, members)
	})
	e.sameControlPlane(t, name, controlPlane)
	pause(e.controlPlane(t, name), false)
}

// etcdSettledIn verifies with etcd itself that so many members vote, whatever the EtcdCluster says.
func (e *environment) etcdSettledIn(t *testing.T, name string, replicas int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d voters", replicas), patience, e.etcdVoters(e.etcdMachineNames(t, name)[0], replicas))
}

// etcdGoesLast yields, once ctx has ended, which machine of etcd was being deleted beside a machine of the control plane; empty: none.
func (e *environment) etcdGoesLast(t *testing.T, ctx context.Context, name string) <-chan string {
	t.Helper()
	result, c := make(chan string, 1), e.management(t)
	go func() {
		found, tick := "", time.NewTicker(200*time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			var all clusterv1.MachineList
			if err := c.List(context.Background(), &all, client.InNamespace("default"), clusterLabels(name)); err != nil {
				continue // the management plane may be ending
			}
			going, needing := "", ""
			for _, m := range all.Items {
				switch _, member := m.Labels[etcdclusterv1alpha1.MachineLabel]; {
				case member && !m.DeletionTimestamp.IsZero():
					going = m.Name
				case !member:
					needing = m.Name
				}
			}
			if going != "" && needing != "" && found == "" {
				found = fmt.Sprintf("%s was being deleted while %s was there", going, needing)
			}
		}
		result <- found
	}()
	return result
}
