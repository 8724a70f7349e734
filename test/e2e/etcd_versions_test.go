//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// etcdVersions: an etcd cluster of three goes from etcd 3.5 to 3.6 and back by machines, under a control plane that goes on writing. What
// etcd would not take is refused, and a way back that is taken back ends where it began. Members come back after their process was killed,
// and after their machine was powered off.
//
//quorate:shows etcd created 3.5.35
//quorate:shows etcd replaced 3.5.35>3.6.16
//quorate:shows etcd replaced 3.6.16>3.5.35
func etcdVersions(t *testing.T, e *environment) {
	const name = "zulu"
	e.up(t, name, "--replicas", "1", "--etcd", "3", "--etcd-version", "3.5.35")
	e.etcdSettled(t, name, 3)
	before := e.etcdMachineNames(t, name)
	for _, m := range before {
		eventually(t, m+" has etcd 3.5", patience, func() string { return e.etcdClusterVersion(m, "3.5") })
		eventually(t, m+" is provisioned without a Node", patience, e.provisioned(t, m))
		if out := e.quorate(t, "shell", m, "--", "sh", "-c",
			"systemctl is-active etcd; pgrep -x containerd || echo no containerd"); out != "active\nno containerd\n" {
			t.Errorf("%s: %q", m, out)
		}
	}
	if out := e.quorate(t, "status", name); !strings.Contains(out, "etcd cluster zulu-etcd  v3.5.35  3 of 3 ready") {
		t.Errorf("the status is\n%s", out)
	}

	e.goesTo(t, name, "3.5.35", "3.6.16")
	members := e.etcdMachineNames(t, name)
	if out := e.quorate(t, "logs", members[0]); !strings.Contains(out, "ready to serve client requests") {
		t.Errorf("the log of etcd is\n%s", out)
	}
	e.refusesOldEtcd(t, name, members)

	for _, hurt := range [][]string{{"kill-component", members[0], "etcd"}, {"stop", members[1]}, {"start", members[1]}} {
		e.quorate(t, append([]string{"machine"}, hurt...)...)
	}
	for _, m := range members {
		eventually(t, m+" serves again", patience, func() string {
			if _, err := e.etcdOn(m, "endpoint", "health"); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	e.etcdSettled(t, name, 3)
	if after := e.etcdMachineNames(t, name); !slices.Equal(after, members) {
		t.Errorf("the machines were %v and are %v", members, after)
	}
	e.takesBack(t, name, members, "3.6.16", "3.5.35")
	e.goesTo(t, name, "3.6.16", "3.5.35")
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	e.takeDown(t, name)
}

// etcdNewest: an etcd cluster of three goes from etcd 3.6 to 3.7 and back by machines, under a control plane that goes on writing. A way
// back that is taken back ends where it began.
//
//quorate:shows etcd created 3.6.16
//quorate:shows etcd replaced 3.6.16>3.7.3
//quorate:shows etcd replaced 3.7.3>3.6.16
func etcdNewest(t *testing.T, e *environment) {
	const name, older, newest = "yankee", "3.6.16", "3.7.3"
	e.up(t, name, "--replicas", "1", "--etcd", "3", "--etcd-version", older)
	e.etcdSettled(t, name, 3)
	e.goesTo(t, name, older, newest)
	e.takesBack(t, name, e.etcdMachineNames(t, name), newest, older)
	e.goesTo(t, name, newest, older)
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	e.takeDown(t, name)
}

// goesTo takes an etcd cluster of three from one version to another under writes, and sees that there is one machine more at most.
func (e *environment) goesTo(t *testing.T, name, from, to string) {
	t.Helper()
	before := e.etcdMachineNames(t, name)
	ctx, stop := context.WithCancel(context.Background())
	seen := e.countMachines(t, ctx, etcdLabels(name))
	changed := e.etcdClusterOf(t, name)
	changed.SetGroupVersionKind(etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"))
	changed.Spec.Version = to
	e.asPlanned(t, name, "EtcdCluster", 2, []string{"-f", e.manifest(t, changed)}, func() {
		e.written(t, name, func() {
			start := time.Now()
			e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Version = to })
			e.etcdReplaced(t, name, before)
			t.Logf("FIGURE three machines of etcd from %s to %s: %.1f s", from, to, time.Since(start).Seconds())
		})
	})
	stop()
	if most := (<-seen).most; most != 4 {
		t.Errorf("there were up to %d machines of etcd, want 4", most)
	}
	for _, m := range e.etcdMachineNames(t, name) {
		eventually(t, m+" has the version of the new ones", patience, func() string { return e.etcdClusterVersion(m, to[:3]) })
	}
}

// takesBack asks for an older minor version, and takes that back when etcd was lowered and a machine made for it: nobody else is touched,
// and etcd has its version again.
func (e *environment) takesBack(t *testing.T, name string, members []string, has, older string) {
	t.Helper()
	for _, m := range members {
		eventually(t, m+" keeps data of "+has[:3], patience, func() string { return e.etcdClusterVersion(m, has[:3]) })
	}
	start := time.Now()
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Version = older })
	eventually(t, "etcd is lowered", patience, func() string { return e.etcdClusterVersion(members[0], older[:3]) })
	eventually(t, "a machine of the older version", patience, func() string {
		if n := len(e.etcdMachineNames(t, name)); n != 4 {
			return fmt.Sprintf("%d machines: %s", n, e.etcdClusterOf(t, name).Status.Plan.Message)
		}
		return ""
	})
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Version = has })
	e.etcdSettled(t, name, 3)
	eventually(t, "etcd has its version again", patience, func() string { return e.etcdClusterVersion(members[0], has[:3]) })
	t.Logf("FIGURE etcd from %s on the way to %s and back: %.1f s", has, older, time.Since(start).Seconds())
	if after := e.etcdMachineNames(t, name); !slices.Equal(after, members) {
		t.Errorf("the machines were %v and are %v", members, after)
	}
}

// refusesOldEtcd asks for a version that 3.6 cannot be beside, sees that it is refused and no machine touched, and takes that back.
func (e *environment) refusesOldEtcd(t *testing.T, name string, machines []string) {
	t.Helper()
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Version = "3.5.25" })
	eventually(t, "3.5.25 is refused", patience, func() string {
		if plan := e.etcdClusterOf(t, name).Status.Plan; plan.Reason != "InvalidVersionChange" {
			return plan.Reason + ": " + plan.Message
		}
		return ""
	})
	if after := e.etcdMachineNames(t, name); !slices.Equal(after, machines) {
		t.Errorf("the machines were %v and are %v", machines, after)
	}
	e.changeEtcd(t, name, func(c *etcdclusterv1alpha1.EtcdCluster) { c.Spec.Version = "3.6.16" })
	e.etcdSettled(t, name, 3)
}

// etcdClusterVersion says why the version that a machine's etcd tells of its cluster is not of a minor version, such as 3.6.
func (e *environment) etcdClusterVersion(machine, minor string) string {
	var status []struct {
		Status struct {
			Version        string `json:"version"`
			StorageVersion string `json:"storageVersion"`
		}
	}
	out, err := e.etcdOn(machine, "endpoint", "status", "-w", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &status)
	}
	switch {
	case err != nil:
		return err.Error()
	case len(status) != 1 || !strings.HasPrefix(cmp.Or(status[0].Status.StorageVersion, status[0].Status.Version), minor+"."):
		return out // 3.5 tells no version of its storage
	}
	return ""
}

// etcdOn runs etcdctl on a machine of etcd.
func (e *environment) etcdOn(machine string, args ...string) (string, error) {
	const command = ". /etc/etcd/etcdctl.env; /opt/bin/etcdctl --endpoints https://127.0.0.1:2379 --command-timeout 5s "
	return e.try("shell", machine, "--", "sh", "-c", command+strings.Join(args, " "))
}

// etcdMembers asks the etcd on a machine of an etcd cluster itself.
func (e *environment) etcdMembers(machine string) ([]member, error) {
	return membersIn(e.etcdOn(machine, "member", "list", "-w", "json"))
}

// etcdVoters says what is missing until a machine's etcd has so many members, all voters.
func (e *environment) etcdVoters(machine string, want int) func() string {
	return func() string {
		members, err := e.etcdMembers(machine)
		if err != nil {
			return err.Error()
		}
		learners := slices.ContainsFunc(members, func(m member) bool { return m.IsLearner || m.Name == "" })
		if len(members) != want || learners {
			return fmt.Sprintf("members %+v, want %d voters", members, want)
		}
		return ""
	}
}

// provisioned says what is missing until Cluster API knows a machine that has no Node.
func (e *environment) provisioned(t *testing.T, name string) func() string {
	return func() string {
		m, lm := &clusterv1.Machine{}, &infrav1.LocalMachine{}
		for _, o := range []client.Object{m, lm} {
			if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
				return err.Error()
			}
		}
		if m.Spec.ProviderID != "local://"+name || len(m.Status.Addresses) == 0 || !conditions.IsTrue(lm, clusterv1.ReadyCondition) {
			return fmt.Sprintf("providerID %q, addresses %v, %+v", m.Spec.ProviderID, m.Status.Addresses, lm.Status.Conditions)
		}
		return ""
	}
}
