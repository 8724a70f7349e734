package stacked

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// allWrites lets TestWritePoints disturb every kind of write in every way.
var allWrites = flag.Bool("all-writes", false, "disturb every kind of write in every way, and print a table")

// A life is a part of a control plane's life: what a person does, and what is to come of it.
type life struct {
	name string
	// from makes the world that it begins with, if not with so many machines at rest.
	from     func(*testing.T) *world
	machines int
	// act is what a person, or a health check, does at its beginning.
	act func(*world)
	// most is how many machines there may be at any time.
	most int
	// hangs is a machine that hangs before it joins, until somebody deletes it; empty: none does.
	hangs string
	// lost: the quorum is lost at the beginning, so that no member is removed, and another machine initialises a cluster.
	lost bool
	// beside plays what works beside the controller in this life only; nil: nothing does.
	beside func(*run)
}

var lives = []life{
	{name: "create 0 to 3", most: 3, from: func(t *testing.T) *world {
		kcp := testKCP(3)
		kcp.Finalizers = nil
		kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
		return newWorld(t, testCluster(), kcp)
	}},
	{name: "scale 3 to 5", machines: 3, most: 5, act: func(w *world) { w.scale(5) }},
	{name: "scale 5 to 1", machines: 5, most: 5, act: func(w *world) { w.scale(1) }},
	{name: "rollout, surge 1", machines: 3, most: 4, act: func(w *world) { w.rollOut(1) }},
	{name: "rollout, surge 0", machines: 3, most: 3, act: func(w *world) { w.rollOut(0) }},
	{name: "rollout, at most 3 a day", machines: 3, most: 4, act: func(w *world) { w.rollOut(1); w.limit(3) }},
	{name: "remediation", machines: 3, most: 3, act: func(w *world) { w.ail("demo-cp-2") }},
	{name: "deletion of a machine that hangs", most: 3, hangs: "demo-cp-2", from: func(t *testing.T) *world {
		kcp := testKCP(3)
		kcp.Spec.Joins.MaxParallel = ptr.To[int32](1)
		return newWorld(t, testCluster(), kcp)
	}},
	{name: "adoption", most: 3, from: func(t *testing.T) *world { return forsaken(t, nil) }},
	{name: "recovery by a seed", machines: 3, most: 3, lost: true, act: func(w *world) {
		w.loses()
		time.Sleep(time.Minute)
		w.recovers(w.machineNames()...)
	}},
	{name: "hibernation", machines: 3, most: 3, beside: (*run).sleeps, act: func(w *world) {
		w.hibernatable()
		w.power(controlplanev1.PowerHibernated)
	}},
	{name: "deletion", machines: 3, most: 3, act: func(w *world) {
		if err := w.client.Delete(context.Background(), w.kcp()); err != nil {
			w.t.Fatal(err)
		}
	}},
}

// rollOut asks for another version, and lets kubeadm's files in the cluster be behind.
func (w *world) rollOut(surge int32) {
	w.permissions = "ClusterRoleBinding kubeadm:cluster-admins is missing"
	w.config, w.addons = "kubernetesVersion v1.36.3, v1.37.0 wanted", "kube-proxy is v1.36.3, v1.37.0 wanted"
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		upgrade(kcp)
		kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(surge))
	})
}

// limit allows so many replacements in a day.
func (w *world) limit(n int32) {
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Approval.MaxReplacementsPerDay = &n })
}

// live takes a control plane through a life.
func (l life) live(t *testing.T, starts map[int]saved, at int, o outcome, turns int) *run {
	var w *world
	if l.from != nil {
		w = l.from(t)
	} else {
		w = starts[l.machines].world(t)
	}
	r := &run{writer: &writer{world: w, at: at, outcome: o}, most: l.most, hangs: l.hangs, lost: l.lost, beside: l.beside}
	r.due, r.onWrite = map[string]time.Time{}, r.watch
	if l.act != nil {
		l.act(w)
	}
	r.begin()
	r.toRest(turns)
	return r
}

// manyTurns is how many turns an undisturbed life may take.
const manyTurns = 1000

// start returns a world with so many machines at rest.
func start(t *testing.T, machines int32) (s saved) {
	synctest.Test(t, func(t *testing.T) {
		l := life{name: "start", most: int(machines), from: func(t *testing.T) *world { return newWorld(t, testCluster(), testKCP(machines)) }}
		r := l.live(t, nil, -1, done, manyTurns)
		if len(r.wrong) > 0 {
			t.Fatalf("undisturbed: %v", r.wrong)
		}
		s = r.save()
	})
	return s
}

// TestWritePoints disturbs each write of a control plane's life in turn. Whatever becomes of
// it, all ends as it does undisturbed, without a machine too many and without a member lost.
func TestWritePoints(t *testing.T) {
	starts := map[int]saved{3: start(t, 3), 5: start(t, 5)}
	var sum results
	t.Run("lives", func(t *testing.T) {
		for _, l := range lives {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				sum.add(l.disturb(t, starts))
			})
		}
	})
	if *allWrites {
		fmt.Print(sum.table())
	}
}
