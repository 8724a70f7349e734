//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// older and newer are the versions of Kubernetes that lives go from and to. `make e2e FROM=... TO=...` chooses others.
var older, newer = cmp.Or(os.Getenv("QUORATE_E2E_FROM"), "v1.36.3"), cmp.Or(os.Getenv("QUORATE_E2E_TO"), "v1.37.2")

// surge1: v1.36.3 -> v1.37.2 with one machine more than wanted, while a client writes and reads.
//
//quorate:shows kubernetes created older
//quorate:shows kubernetes replaced older>newer
func surge1(t *testing.T, e *environment) {
	e.up(t, "golf", "--replicas", "3", "--kubernetes-version", older)
	rollOver(t, e, "golf", 4)
	e.takeDown(t, "golf")
}

// surge0: the same, one machine first taken away each time.
//
//quorate:shows kubernetes replaced older>newer
func surge0(t *testing.T, e *environment) {
	e.up(t, "hotel", "--replicas", "3", "--kubernetes-version", older)
	e.change(t, "hotel", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.Strategy.Type = "RollingUpdate"
		kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
	})
	rollOver(t, e, "hotel", 3)
	e.takeDown(t, "hotel")
}

// machinesUpgrade: a ControlPlane whose machines kubeadm makes follows another version.
//
//quorate:shows kubernetes replaced older>newer
func machinesUpgrade(t *testing.T, e *environment) {
	kind := []string{"--kind", "ControlPlane"}
	e.up(t, "zulu-cp", append(kind, "--replicas", "3", "--kubernetes-version", older)...)
	rollOver(t, e, "zulu-cp", 4, kind...)
	e.takeDown(t, "zulu-cp")
}

// rollOver takes a cluster of three to the newer version, with at most so many machines at once, and verifies what
// its users and its etcd saw of it.
func rollOver(t *testing.T, e *environment, name string, most int, args ...string) {
	before := e.machines(t, name)
	ctx, stop := context.WithCancel(context.Background())
	seen := e.countMachines(t, ctx, clusterLabels(name))
	gap := e.observed(t, name, "Quorate", func() {
		took := e.up(t, name, append(args, "--kubernetes-version", newer)...)
		t.Logf("FIGURE three machines %s -> %s: %.1f s", older, newer, took.Seconds())
		eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
		eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	})
	stop()
	checkGap(t, gap, len(before))
	for _, m := range e.machines(t, name) {
		if slices.Contains(before, m) {
			t.Errorf("%s was not replaced", m)
		}
	}
	if got := <-seen; got.most != most {
		t.Errorf("there were up to %d machines at once, want %d", got.most, most)
	}
	c, _ := e.workload(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if n.Status.NodeInfo.KubeletVersion != newer {
			t.Errorf("node %s runs %s", n.Name, n.Status.NodeInfo.KubeletVersion)
		}
	}
	proxy, err := c.AppsV1().DaemonSets("kube-system").Get(context.Background(), "kube-proxy", metav1.GetOptions{})
	if err != nil || !strings.HasSuffix(proxy.Spec.Template.Spec.Containers[0].Image, ":"+newer) {
		t.Errorf("kube-proxy is %v, %v", proxy.Spec.Template.Spec.Containers, err)
	}
	spreadOver(t, e, name, 3)
}

// observed runs f while a client writes and reads through the cluster's endpoint ten times a second, and tells what
// that client saw, and how long the controller took of its own. It returns the longest time without an acknowledged write.
func (e *environment) observed(t *testing.T, name, controller string, f func()) time.Duration {
	t.Helper()
	return e.written(t, name, func() {
		own := measureDelays(t, e, name)
		f()
		own.report(t, controller)
	})
}

// written is observed without what the controller took of its own.
func (e *environment) written(t *testing.T, name string, f func()) time.Duration {
	t.Helper()
	client, _ := e.underWrites(t, name, f)
	return client.gap
}

// plannedGap bounds how long no write may be acknowledged while one machine after the other is changed. An election of etcd's leader takes
// one to two seconds.
const plannedGap = 2500 * time.Millisecond

// served is written for machines that are changed one after the other. With more than one machine the API must go on: no acknowledged write
// for longer than plannedGap is an error. The API of a single machine is away while that machine is changed.
func (e *environment) served(t *testing.T, name string, machines int, f func()) {
	t.Helper()
	checkGap(t, e.written(t, name, f), machines)
}

// checkGap reports a gap between acknowledged writes that is longer than plannedGap, unless a single machine was changed.
func checkGap(t *testing.T, gap time.Duration, machines int) {
	t.Helper()
	if machines > 1 && gap > plannedGap {
		t.Errorf("for %s no write was acknowledged, want at most %s", gap.Round(time.Millisecond), plannedGap)
	}
}

// underWrites runs f while a client writes, and returns that client and how many of its acknowledged writes are lost, which must be none.
func (e *environment) underWrites(t *testing.T, name string, f func()) (*writer, int) {
	t.Helper()
	c, _ := e.workload(t, name)
	ctx, stop := context.WithCancel(context.Background())
	client, done := newWriter(c), make(chan struct{})
	go func() { defer close(done); client.run(ctx) }()
	f()
	stop()
	<-done
	t.Logf("FIGURE writes through the endpoint meanwhile: %s", client)
	lost := client.lost(context.Background(), t)
	if lost > 0 {
		t.Errorf("%d acknowledged writes are lost", lost)
	}
	return client, lost
}

// counted is how many machines that were not being deleted there were at least and at most.
type counted struct{ least, most int }

// countMachines yields, once ctx has ended, how many machines with labels that were not being deleted there were.
func (e *environment) countMachines(t *testing.T, ctx context.Context, labels client.MatchingLabels) <-chan counted {
	t.Helper()
	c, seen := e.management(t), make(chan counted, 1)
	go func() {
		n := counted{least: math.MaxInt}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			var all clusterv1.MachineList
			if c.List(ctx, &all, labels) != nil {
				continue
			}
			staying := slices.DeleteFunc(all.Items, func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
			n = counted{least: min(n.least, len(staying)), most: max(n.most, len(staying))}
		}
		seen <- n
	}()
	return seen
}

// change lets a user change the control plane.
func (e *environment) change(t *testing.T, name string, f func(*controlplanev1.KubeadmControlPlane)) {
	t.Helper()
	kcp := e.controlPlane(t, name)
	before := kcp.DeepCopy()
	f(kcp)
	if err := e.management(t).Patch(context.Background(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// repair: one dead machine of three is replaced by spec.autoRepair.
func repair(t *testing.T, e *environment) {
	heal(t, e, "india", 3, 1)
	e.useRights(t, true)
}

// twoOfFive: two dead machines of five at once are.
func twoOfFive(t *testing.T, e *environment) { heal(t, e, "juliett", 5, 2) }

func heal(t *testing.T, e *environment, name string, replicas, dead int) {
	e.up(t, name, "--replicas", strconv.Itoa(replicas))
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{UnhealthyTimeoutSeconds: ptr.To[int32](10)}
	})
	all := e.machines(t, name)
	eventually(t, "the health check knows all machines", patience, func() string {
		check := &clusterv1.MachineHealthCheck{}
		if err := e.management(t).Get(context.Background(), client.ObjectKeyFromObject(e.controlPlane(t, name)), check); err != nil {
			return err.Error()
		}
		if n := ptr.Deref(check.Status.CurrentHealthy, 0); int(n) != replicas {
			return fmt.Sprintf("%d of %d machines are healthy", n, replicas)
		}
		return ""
	})
	victims := all[:dead]
	e.quorate(t, append([]string{"machine", "stop"}, victims...)...)
	eventually(t, "the health check has found the first", patience, func() string {
		kcp := e.controlPlane(t, name)
		if kcp.Status.LastRemediation.Machine == "" {
			return kcp.Status.Plan.Message
		}
		return ""
	})
	took := eventually(t, fmt.Sprintf("%d voters again", replicas), patience, func() string {
		for _, v := range victims {
			if slices.Contains(e.machines(t, name), v) {
				return v + " is still there: " + e.controlPlane(t, name).Status.Plan.Message
			}
		}
		return e.quorumOf(t, name, replicas)()
	})
	took += eventually(t, "healthy nodes", patience, e.healthy(t, name, replicas))
	t.Logf("FIGURE %d dead of %d to all healthy again, from the health check's verdict: %.1f s", dead, replicas, took.Seconds())
	e.takeDown(t, name)
}

// after: spec.rollout.after replaces all machines that are older.
func after(t *testing.T, e *environment) {
	e.up(t, "kilo", "--replicas", "1")
	before := e.machines(t, "kilo")
	e.change(t, "kilo", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
	e.replaced(t, "kilo", before)
	e.takeDown(t, "kilo")
}

// template: another machine template replaces all machines made from the one before.
func template(t *testing.T, e *environment) {
	e.up(t, "lima", "--replicas", "1")
	before, kcp := e.machines(t, "lima"), e.controlPlane(t, "lima")
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	made.SetGroupVersionKind(infrav1.GroupVersion.WithKind("LocalMachineTemplate"))
	made.SetNamespace(kcp.Namespace)
	made.SetName("lima-other")
	if err := e.management(t).Create(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	e.change(t, "lima", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = made.GetName()
	})
	e.replaced(t, "lima", before)
	e.takeDown(t, "lima")
}

// replaced waits until other machines have taken the place of all.
func (e *environment) replaced(t *testing.T, name string, before []string) {
	t.Helper()
	eventually(t, "other machines", patience, func() string {
		now := e.machines(t, name)
		for _, m := range now {
			if slices.Contains(before, m) {
				return fmt.Sprintf("%v: %s", now, e.controlPlane(t, name).Status.Plan.Message)
			}
		}
		if len(now) != len(before) {
			return fmt.Sprintf("%v", now)
		}
		return e.quorumOf(t, name, len(before))()
	})
}

// kubeletDead: the kubelet of the leader's machine ends. Its etcd lives on and leads, and nobody can forward a port to it.
func kubeletDead(t *testing.T, e *environment) {
	e.up(t, "mike", "--replicas", "3")
	e.change(t, "mike", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{UnhealthyTimeoutSeconds: ptr.To[int32](10)}
	})
	leader := e.leader(t, e.machines(t, "mike"))
	e.quorate(t, "shell", leader, "--", "systemctl", "stop", "kubelet")
	eventually(t, "another machine in place of the leader's", patience, func() string {
		now := e.machines(t, "mike")
		if slices.Contains(now, leader) {
			return e.controlPlane(t, "mike").Status.Plan.Message
		}
		return e.quorumOf(t, "mike", 3)()
	})
	e.takeDown(t, "mike")
}

// leader is the machine whose etcd leads.
func (e *environment) leader(t *testing.T, machines []string) string {
	t.Helper()
	for _, m := range machines {
		out := e.quorate(t, "shell", m, "--", "sh", "-c", etcdctl+"endpoint status")
		var status []struct {
			Status struct {
				Header struct {
					MemberID uint64 `json:"member_id"`
				} `json:"header"`
				Leader uint64 `json:"leader"`
			} `json:"Status"`
		}
		if err := json.Unmarshal([]byte(out), &status); err != nil || len(status) != 1 {
			t.Fatalf("etcd on %s: %v: %s", m, err, out)
		}
		if s := status[0].Status; s.Leader == s.Header.MemberID {
			return m
		}
	}
	t.Fatal("no etcd leads")
	return ""
}

// killDaemonOften: SIGKILL of the daemon at ten random moments of a rollout.
//
//quorate:shows kubernetes replaced older>newer
func killDaemonOften(t *testing.T, e *environment) {
	e.up(t, "november", "--replicas", "3", "--kubernetes-version", older)
	before := e.machines(t, "november")
	e.observed(t, "november", "Quorate, killed ten times,", func() {
		for n := range 10 {
			e.quorate(t, "up", "--network", e.network, "--name", "november", "--kubernetes-version", newer, "--wait=false")
			time.Sleep(time.Duration(1000+rand.IntN(11000)) * time.Millisecond) // any moment will do
			t.Logf("kill %d: %s", n+1, e.controlPlane(t, "november").Status.Plan.Step)
			killDaemon(t, e)
		}
		e.up(t, "november", "--kubernetes-version", newer)
		e.replaced(t, "november", before)
	})
	e.takeDown(t, "november")
}
