//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// etcdTogether: Kubernetes and the etcd on machines of its own are given other versions by one command. etcd's machines are replaced first;
// only then that of the control plane, which says until then what it waits for. A client goes on writing.
//
//quorate:shows kubernetes replaced older>newer
//quorate:shows etcd replaced 3.5.35>3.6.16
func etcdTogether(t *testing.T, e *environment) {
	const name = "together"
	e.up(t, name, "--replicas", "1", "--etcd", "3", "--etcd-version", "3.5.35", "--kubernetes-version", older)
	e.etcdSettled(t, name, 3)
	members, before := e.etcdMachineNames(t, name), e.machines(t, name)
	waited := ""
	e.written(t, name, func() {
		e.quorate(t, "up", "--name", name, "--etcd", "3", "--etcd-version", "3.6.16", "--kubernetes-version", newer, "--wait=false")
		eventually(t, "the first other machine of the control plane", 2*patience, func() string {
			if p := e.controlPlane(t, name).Status.Plan; p.Reason == "EtcdRollingOut" {
				waited = p.Message
			}
			if slices.Equal(e.machines(t, name), before) {
				return e.controlPlane(t, name).Status.Plan.Message
			}
			return ""
		})
		for _, m := range e.etcdMachineNames(t, name) {
			if slices.Contains(members, m) {
				t.Errorf("machine %s of etcd is still there, and the control plane has %v", m, e.machines(t, name))
			}
		}
		eventually(t, "the control plane is as wanted", 2*patience, func() string {
			now, p := e.machines(t, name), e.controlPlane(t, name).Status.Plan
			if len(now) != 1 || slices.Equal(now, before) || p.Step != string(plan.Nothing) {
				return fmt.Sprintf("machines %v: %s", now, p.Message)
			}
			return ""
		})
	})
	t.Logf("it waited: %s", waited)
	if waited == "" {
		t.Error("the control plane did not say that it waits for etcd")
	}
	e.etcdSettled(t, name, 3)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 1))
	e.isVersion(t, name, newer)
	e.takeDown(t, name)
}
