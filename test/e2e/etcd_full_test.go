//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/maintenance"
	"github.com/quorate/quorate/internal/core/plan"
)

// etcdFull: a member that a person adds while all is as wanted is noticed soon, and goes. An etcd whose quota is full of what was
// overwritten takes writes again without a person, and machines can join again.
func etcdFull(t *testing.T, e *environment) {
	const name = "full"
	e.up(t, name, "--replicas", "3")
	e.hasStray(t, name)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.Local.ExtraArgs = []bootstrapv1.Arg{
			{Name: "quota-backend-bytes", Value: ptr.To(fmt.Sprint(24 << 20))},
		}
	})
	e.restsAsWanted(t, name)

	c, _ := e.workload(t, name)
	maps := c.CoreV1().ConfigMaps("default")
	big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}}
	if _, err := maps.Create(context.Background(), big, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write := func(n int) error {
		big.Data = map[string]string{"n": fmt.Sprint(n), "x": strings.Repeat("x", 500<<10)}
		_, err := maps.Update(context.Background(), big, metav1.UpdateOptions{})
		return err
	}
	for n := range 12 {
		if err := write(n); err != nil {
			t.Fatal(err)
		}
	}
	e.defragmentsAtRest(t, name)

	writes := 0
	var refused error
	for ; writes < 2000 && refused == nil; writes++ {
		if err := write(writes); err != nil && strings.Contains(err.Error(), "database space exceeded") {
			refused = err
		}
	}
	if refused == nil {
		t.Fatalf("etcd took %d writes of 500 KiB with a quota of 24 MiB", writes)
	}
	t.Logf("after %d writes: %v", writes, refused)
	took := eventually(t, "etcd takes writes again", patience, func() string {
		if err := write(-1); err != nil {
			return fmt.Sprintf("%v; %s", err, e.controlPlane(t, name).Status.Plan.Message)
		}
		return ""
	})
	t.Logf("FIGURE NOSPACE, three members: writable without a person after %.1f s (bound 60 s)", took.Seconds())
	e.restsAsWanted(t, name)
	t.Log(e.quorate(t, "history", name))
	e.showsMembers(t, name)
	e.compact(t, name) // what the relief of NOSPACE kept takes most of the quota
	for n := range 12 {
		if err := write(n); err != nil {
			t.Fatal(err)
		}
	}
	e.tendsMembers(t, name)

	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](1) })
	e.restsAsWanted(t, name)
	e.takeDown(t, name)
}

// showsMembers looks at etcd's members, and at what fills them: all answer, one leads, and nothing of an object is shown.
func (e *environment) showsMembers(t *testing.T, name string) {
	t.Helper()
	t.Log(e.quorate(t, "etcd", "status", name))
	var status maintenance.Status
	begun := time.Now()
	if err := json.Unmarshal([]byte(e.quorate(t, "etcd", "status", name, "-o", "json")), &status); err != nil || len(status.Etcds) != 1 {
		t.Fatalf("%v: %+v", err, status)
	}
	t.Logf("FIGURE quorate etcd status, three members: %.1f s", time.Since(begun).Seconds())
	leaders := 0
	for _, m := range status.Etcds[0].Members {
		if m.Leader {
			leaders++
		}
		if m.Health != plan.Healthy || m.Machine == "" || m.Size == 0 || m.Quota != 24<<20 || m.Latency == nil || len(m.Alarms) > 0 {
			t.Errorf("member %+v", m)
		}
	}
	if len(status.Etcds[0].Members) != 3 || leaders != 1 || !status.Etcds[0].HasQuorum {
		t.Errorf("etcd is %+v", status.Etcds[0])
	}
	t.Log(e.quorate(t, "etcd", "top", name))
	begun = time.Now()
	var top maintenance.Top
	out := e.quorate(t, "etcd", "top", name, "--by", "namespace", "--limit", "100", "-o", "json")
	t.Logf("FIGURE quorate etcd top --by namespace: %.1f s", time.Since(begun).Seconds())
	if err := json.Unmarshal([]byte(out), &top); err != nil || len(top.Etcds) != 1 || top.Etcds[0].Cut != "" {
		t.Fatalf("%v: %s", err, out)
	}
	if first := top.Etcds[0].Prefixes[0]; first.Prefix != "/registry/configmaps" || first.Namespace != "default" || first.Bytes < 500<<10 {
		t.Errorf("the largest is %+v", first)
	}
	if strings.Contains(out, "kube-root-ca") {
		t.Errorf("a name of an object is shown: %s", out)
	}
	begun = time.Now()
	said := e.quorate(t, "etcd", "compare", name)
	t.Logf("FIGURE quorate etcd compare, three members of a quota of 24 MiB: %.1f s: %s", time.Since(begun).Seconds(), said)
	if !strings.Contains(said, "all voters have the same data at revision ") {
		t.Errorf("compared: %s", said)
	}
}

// etcdStatus is how etcd is.
func (e *environment) etcdStatus(t *testing.T, name string) maintenance.Etcd {
	t.Helper()
	var status maintenance.Status
	if err := json.Unmarshal([]byte(e.quorate(t, "etcd", "status", name, "-o", "json")), &status); err != nil || len(status.Etcds) != 1 {
		t.Fatalf("%v: %+v", err, status)
	}
	return status.Etcds[0]
}

// compact drops all that was overwritten. etcd counts what that freed with the next write.
func (e *environment) compact(t *testing.T, name string) {
	t.Helper()
	machine := e.machines(t, name)[0]
	revision := e.etcdStatus(t, name).Members[0].Revision
	e.quorate(t, "shell", machine, "--", "sh", "-c", etcdctl+fmt.Sprintf("compact --physical %d", revision))
	e.quorate(t, "shell", machine, "--", "sh", "-c", etcdctl+"put after-compaction x")
}

// defragmentsAtRest: where the spec asks for it, members give back what their data do not need, without a person.
func (e *environment) defragmentsAtRest(t *testing.T, name string) {
	t.Helper()
	e.compact(t, name)
	before := e.etcdStatus(t, name)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		least := resource.MustParse("1Mi")
		kcp.Spec.EtcdMaintenance.Defragment = &controlplanev1.DefragmentSpec{FreePercent: ptr.To[int32](25), MinSize: &least}
	})
	took := eventually(t, "all members were defragmented at rest", 2*patience, func() string {
		for i, m := range e.etcdStatus(t, name).Members {
			if b := before.Members[i]; m.Size >= b.Size {
				return fmt.Sprintf("%s took %d bytes, and takes %d, %d in use; %s", m.Machine, b.Size, m.Size, m.InUse,
					e.controlPlane(t, name).Status.Plan.Message)
			}
		}
		return ""
	})
	t.Logf("FIGURE defragmentation at rest, three members, 30 s between two: %.1f s", took.Seconds())
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.EtcdMaintenance = controlplanev1.EtcdMaintenanceSpec{}
	})
	e.restsAsWanted(t, name)
	if out := e.quorate(t, "history", name); strings.Count(out, "  Fragmented ") < 3 {
		t.Errorf("the history lacks it:\n%s", out)
	}
}

// tendsMembers asks for what people may ask for: each member gives back what its data do not need, and another one leads.
func (e *environment) tendsMembers(t *testing.T, name string) {
	t.Helper()
	status := func() (all maintenance.Etcd, leader string) {
		all = e.etcdStatus(t, name)
		for _, m := range all.Members {
			if m.Leader {
				leader = m.Machine
			}
		}
		return all, leader
	}
	e.compact(t, name)
	before, _ := status()
	begun := time.Now()
	t.Log(e.quorate(t, "etcd", "defragment", name, "--yes"))
	t.Logf("FIGURE quorate etcd defragment, three members: %.1f s", time.Since(begun).Seconds())
	after, leader := status()
	for i, m := range after.Members {
		if b := before.Members[i]; m.Size > b.Size/2 {
			t.Errorf("%s took %d bytes, and takes %d, %d in use", m.Machine, b.Size, m.Size, m.InUse)
		}
	}
	if done := strings.Count(e.quorate(t, "history", name), "  Requested "); done < 4 { // the leader hands over
		t.Errorf("%d steps were taken", done)
	}
	e.restsAsWanted(t, name)
	t.Log(e.quorate(t, "etcd", "move-leader", name, "--yes"))
	if _, now := status(); now == leader {
		t.Errorf("%s still leads", leader)
	}
	if asked := e.controlPlane(t, name).Annotations[controlplanev1.EtcdRequestsAnnotation]; asked != "" {
		t.Errorf("the request is left: %s", asked)
	}
	if _, err := e.try("etcd", "disarm", name, "--yes"); err == nil || !strings.Contains(err.Error(), "raises NOSPACE") {
		t.Errorf("an alarm was ended that is not active: %v", err)
	}
	e.restsAsWanted(t, name)
}

// hasStray adds a learner by hand that nothing starts, while all is as wanted, and waits until it was noticed and is gone.
func (e *environment) hasStray(t *testing.T, name string) {
	t.Helper()
	e.restsAsWanted(t, name)
	machine := e.machines(t, name)[0]
	out := e.quorate(t, "shell", machine, "--", "sh", "-c", etcdctl+"member add stray --learner --peer-urls https://203.0.113.9:2380")
	added := time.Now()
	eventually(t, "the member that was added by hand is noticed", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason == "AsWanted" {
			return out
		}
		return ""
	})
	t.Logf("FIGURE a member added by hand at rest: noticed after %.1f s (bound 35 s): %s", time.Since(added).Seconds(),
		e.controlPlane(t, name).Status.Plan.Message)
	e.restsAsWanted(t, name)
	t.Logf("FIGURE a member added by hand at rest: as wanted again after %.1f s", time.Since(added).Seconds())
	members, err := e.members(machine)
	if err != nil || len(members) != 3 {
		t.Errorf("members are %v, %v", members, err)
	}
}

// restsAsWanted waits until the spec that is wanted was observed, and nothing is left to do.
func (e *environment) restsAsWanted(t *testing.T, name string) {
	t.Helper()
	eventually(t, "all is as wanted", 2*patience, func() string {
		kcp := e.controlPlane(t, name)
		if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
}
