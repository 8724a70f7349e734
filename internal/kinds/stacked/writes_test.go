package stacked

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// A clocked world lives in time: machines take as long as real ones do, and each change
// that a real controller would be told of is a turn, besides those that it asks for.
type clocked struct {
	*world
	// group and machines count writes of the status, ages those that change nothing but an age.
	group, machines, ages int
	// made is when each machine was first seen, left when its hook was released.
	made, left map[string]time.Time
	stage      map[string]int
	next       time.Time
	last       map[string]string
}

// clock counts the writes of status in a world.
func clock(w *world) *clocked {
	c := &clocked{world: w, made: map[string]time.Time{}, left: map[string]time.Time{}, stage: map[string]int{}, last: map[string]string{}}
	w.intercept(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, cl client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			switch after := o.(type) {
			case *controlplanev1.KubeadmControlPlane:
				if ageless(w.kcp().Status) == ageless(after.Status) {
					c.ages++
				} else {
					c.group++
				}
			case *clusterv1.Machine, *unstructured.Unstructured: // conditions are applied
				c.machines++
			}
			return cl.SubResource(sub).Patch(ctx, o, p, options...)
		},
	})
	return c
}

// spans are ages in messages, which tell a person how long something waits.
var spans = regexp.MustCompile(`\b\d+ (s|min|h|days)\b`)

// ageless is a status without ages.
func ageless(status controlplanev1.KubeadmControlPlaneStatus) string {
	text, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return spans.ReplaceAllString(string(text), "some time")
}

// stages are what happens to a machine that comes, so many seconds after it was made.
var stages = []struct {
	after time.Duration
	does  func(c *clocked, name string)
}{
	{2 * time.Second, func(c *clocked, name string) { c.claim(name) }},
	{10 * time.Second, func(c *clocked, name string) {
		m := c.machine(name)
		m.Spec.ProviderID = "local://" + name
		c.check(c.client.Update(context.Background(), m))
		m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: address(name)}}
		c.check(c.client.Status().Update(context.Background(), m))
	}},
	{30 * time.Second, (*clocked).announce},
	{33 * time.Second, (*clocked).start},
	{38 * time.Second, (*clocked).promote},
	{40 * time.Second, func(c *clocked, name string) {
		node := testNode(name)
		node.Spec.ProviderID = "local://" + name
		node.Status.Conditions[0].Status = corev1.ConditionFalse
		c.view.Reachable, c.view.Why = true, ""
		c.view.Nodes = append(c.view.Nodes, node)
	}},
	{43 * time.Second, func(c *clocked, name string) { c.pods(name, 0, 2); c.init = true }},
	{46 * time.Second, func(c *clocked, name string) { c.pods(name, 2, 4) }},
	{48 * time.Second, func(c *clocked, name string) {
		m := c.machine(name)
		m.Status.NodeRef.Name = name
		c.check(c.client.Status().Update(context.Background(), m))
	}},
	{55 * time.Second, func(c *clocked, name string) {
		for i := range c.view.Nodes {
			if c.view.Nodes[i].Name == name {
				c.view.Nodes[i].Status.Conditions[0].Status = corev1.ConditionTrue
			}
		}
	}},
}

// address is that of a machine, by the number in its name.
func address(name string) string { return "10.0.0." + name[len("demo-cp-"):] }

// announce adds the learner; the first machine's member votes from birth.
func (c *clocked) announce(name string) {
	first := len(c.members) == 0
	m := etcd.Member{ID: c.nextID, Learner: !first, Leader: first}
	if first {
		m.Name, m.Health = name, plan.Healthy
	} else {
		m.PeerURLs = []string{"https://" + address(name) + ":2380"}
	}
	c.members = append(c.members, m)
	c.nextID++
}

func (c *clocked) start(name string) {
	for i := range c.members {
		if slices.Equal(c.members[i].PeerURLs, []string{"https://" + address(name) + ":2380"}) {
			c.members[i].Name, c.members[i].Health = name, plan.Healthy
		}
	}
}

func (c *clocked) promote(name string) {
	for i := range c.members {
		if c.members[i].Name == name {
			c.members[i].Learner = false
		}
	}
}

// pods lets static pods of a Node be seen as running.
func (c *clocked) pods(name string, from, to int) {
	c.view.Pods = append(c.view.Pods, testPods(name)[from:to]...)
}

func (c *clocked) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// core does what Cluster API's core does of its own: it sums up the readiness of machines.
func (c *clocked) core() {
	for _, m := range c.machinesNow() {
		status := metav1.ConditionTrue
		for _, gate := range m.Spec.ReadinessGates {
			if !conditions.IsTrue(&m, gate.ConditionType) {
				status = metav1.ConditionFalse
			}
		}
		if m.Status.NodeRef.Name == "" {
			status = metav1.ConditionFalse
		}
		before := m.DeepCopy()
		conditions.Set(&m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: status, Reason: "x"})
		conditions.Set(&m, metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: status, Reason: "x"})
		if !slices.Equal(before.Status.Conditions, m.Status.Conditions) {
			c.check(c.client.Status().Update(context.Background(), &m))
		}
	}
}

func (c *clocked) machinesNow() []clusterv1.Machine {
	return slices.DeleteFunc(c.world.machines(), func(m clusterv1.Machine) bool { return !machine.IsControlPlane(&m) })
}

// pass lets a second pass, and what happens in it.
func (c *clocked) pass() {
	time.Sleep(time.Second)
	now := time.Now()
	for _, m := range c.machinesNow() {
		switch {
		case m.DeletionTimestamp.IsZero():
			c.come(m.Name, now)
		case machine.HasHook(&m) && now.Sub(m.DeletionTimestamp.Time) > 8*time.Second &&
			!conditions.IsTrue(&m, clusterv1.MachineDeletingCondition):
			c.terminate(m.Name)
		case !machine.HasHook(&m):
			if c.left[m.Name].IsZero() {
				c.left[m.Name] = now
			}
			if now.Sub(c.left[m.Name]) > 10*time.Second {
				c.bury()
			}
		}
	}
	c.core()
	c.look(now)
}

// come lets the next stages of a machine happen.
func (c *clocked) come(name string, now time.Time) {
	if c.made[name].IsZero() {
		c.made[name] = now
	}
	for c.stage[name] < len(stages) && now.Sub(c.made[name]) >= stages[c.stage[name]].after {
		stages[c.stage[name]].does(c, name)
		c.stage[name]++
	}
}

// look takes a turn if something has changed that is watched, or it is time.
func (c *clocked) look(now time.Time) {
	for range 50 {
		seen := fmt.Sprint(c.view.Reachable, len(c.view.Pods), c.view.Nodes, c.kcp().ResourceVersion)
		for _, m := range c.machinesNow() {
			seen += m.Name + m.ResourceVersion
		}
		if seen == c.last["seen"] && now.Before(c.next) {
			return
		}
		c.last["seen"] = seen
		result, err := c.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
		c.check(err)
		c.next = now.Add(result.RequeueAfter)
	}
}

// until lets time pass until the control plane is at rest with so many machines of a version.
func (c *clocked) until(replicas int, version string) {
	c.t.Helper()
	began := time.Now()
	for time.Since(began) < 30*time.Minute {
		c.pass()
		now := c.machinesNow()
		if len(now) == replicas && c.kcp().Status.Plan.Step == string(plan.Nothing) &&
			!slices.ContainsFunc(now, func(m clusterv1.Machine) bool { return m.Spec.Version != version }) {
			c.t.Logf("%d machines of %s after %s: %d writes of the control plane's status, %d more of ages only, %d of its machines'", replicas,
				version, time.Since(began), c.group, c.ages, c.machines)
			return
		}
	}
	c.t.Fatalf("not at rest after 30 min: %+v", c.kcp().Status.Plan)
}

// TestStatusWrites counts what a control plane costs the management cluster from nothing to three machines,
// while it waits for long, and while three machines are rolled.
func TestStatusWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock(newWorld(t, testCluster(), testKCP(3)))
		c.until(3, "v1.36.3")
		if n := c.group + c.machines + c.ages; n > 25 {
			t.Errorf("%d writes from nothing to three machines, want 25 at most", n)
		}
		for range 10 { // the core finds the machines ready
			c.pass()
		}
		c.group, c.machines, c.ages = 0, 0, 0
		for range 120 {
			c.pass()
		}
		if c.group+c.machines+c.ages > 0 {
			t.Errorf("%d, %d and %d writes in two minutes at rest", c.group, c.machines, c.ages)
		}
		c.change(upgrade)
		c.until(3, "v1.37.0")
		if n := c.group + c.machines + c.ages; n > 60 {
			t.Errorf("%d writes while three are rolled, want 60 at most", n)
		}
	})
}
