//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// inplaceKill: each step of the upgrader is killed at its beginning, middle and end, and so is the service of the swap in each of its
// phases, also on the way back. On the only node of a cluster, and, for the steps that only such nodes have, on the leader of three.
func inplaceKill(t *testing.T, e *environment) {
	var one, three []*killed
	t.Run("nodes", func(t *testing.T) {
		t.Run("one", func(t *testing.T) { t.Parallel(); e.newKillScene(t, "inkill", 1, &one, "--in-place=Only").killOne() })
		t.Run("three", func(t *testing.T) { t.Parallel(); e.newKillScene(t, "inkills", 3, &three).killThree() })
	})
	killTable(t, append(one, three...))
}

// killOne kills all that there is on the only node.
func (s *killScene) killOne() {
	s.updated(nil)
	s.wentBack(false, backwards())
	all := []killMoment{beginning, middle, end}
	for _, m := range all {
		s.tried(phaseKills([]killMoment{m}, steps.Preparing, steps.Stopping, steps.Replacing, steps.Starting, steps.Proving))
	}
	s.tried(kills(steps.Swap))
	s.tried(kills(steps.Finish))
	s.tried(kills(steps.Verify))
	s.wentBack(true, phaseKills(all, steps.RestoringData))
	for _, step := range []steps.Name{steps.Copy, steps.Images, steps.Render, steps.Backup} { // with data that came from a snapshot
		s.tried(kills(step))
	}
	s.takeDown(s.t, s.name)
}

// killThree kills the steps that only one node of several has.
func (s *killScene) killThree() {
	s.updated(nil)
	for _, step := range []steps.Name{steps.Drain, steps.Handover, steps.Uncordon} {
		s.tried(kills(step))
	}
	s.takeDown(s.t, s.name)
}

// kills are those of a step.
func kills(step steps.Name) []kill {
	return []kill{{at: string(step), moment: beginning}, {at: string(step), moment: middle}, {at: string(step), moment: end}}
}

// phaseKills are those of phases at moments, each phase after the other.
func phaseKills(moments []killMoment, phases ...steps.Phase) []kill {
	var all []kill
	for _, p := range phases {
		for _, m := range moments {
			all = append(all, kill{at: string(p), phase: true, moment: m})
		}
	}
	return all
}

// backwards are the kills on the way back. Who is killed while the old version starts goes back once more. Nobody has seen yet how long a
// start takes there, so that the moments which need that come last.
func backwards() []kill {
	at := func(p steps.Phase, m killMoment) kill { return kill{at: string(p), phase: true, moment: m} }
	return []kill{
		at(steps.Reverting, end), at(steps.Restarting, beginning), at(steps.Reverting, middle), at(steps.Restarting, middle),
		at(steps.Reverting, beginning), at(steps.Restarting, end),
	}
}

// killTable prints what was tried, and fails the test for what did not end as it must, and for what was never met.
func killTable(t *testing.T, rows []*killed) {
	t.Helper()
	order := stepNames()
	for _, p := range phaseOrder {
		order = append(order, string(p))
	}
	slices.SortStableFunc(rows, func(a, b *killed) int { return slices.Index(order, a.at) - slices.Index(order, b.at) })
	t.Log("FIGURE | step | moment | outcome | seconds |")
	tried, wrong, met := 0, 0, map[string]bool{}
	for _, r := range rows {
		if r.missed != "" {
			t.Logf("FIGURE | %s | %s | not counted: %s | |", r.at, r.moment, r.missed)
			continue
		}
		tried++
		met[r.at] = true
		if r.outcome == "" {
			r.wrong = append(r.wrong, "it did not end")
		}
		if len(r.wrong) > 0 {
			wrong++
			r.outcome += " WRONG: " + strings.Join(r.wrong, "; ")
		}
		t.Logf("FIGURE | %s | %s | %s | %.1f |", r.at, r.moment, r.outcome, r.seconds)
	}
	t.Logf("FIGURE steps killed x moments: %d tried, %d not at the right end", tried, wrong)
	if wrong > 0 {
		t.Errorf("%d kills did not lead to the right end", wrong)
	}
	for _, name := range append(stepNames(), string(steps.Stopping), string(steps.Proving), string(steps.Reverting), string(steps.Restarting),
		string(steps.RestoringData)) {
		// Machines of one release have the same runtime: these two are left out of their upgrades.
		leftOut := name == string(steps.Containerd) || name == string(steps.CNI)
		if !met[name] && !leftOut {
			t.Errorf("%s was never killed", name)
		}
	}
}

// killScene is a cluster whose nodes are updated and killed.
type killScene struct {
	*environment
	t        *testing.T
	name     string
	replicas int
	manager  client.Client
	cluster  kubernetes.Interface
	killers  map[string]*killer
	usual    map[string]time.Duration
	rows     *[]*killed
	uids     []string
	// earlier are the NodeUpgrades that were there before the update, by UID.
	earlier map[types.UID]bool
	// number counts the updates: each wants something else of the node. kept is the last one that the node got to.
	number, kept int
	// restored counts the updates after which etcd's data came from a snapshot.
	restored int
	// outcome is how the update that is under way goes on, for the table.
	outcome string
	wrong   []string
}

func (e *environment) newKillScene(t *testing.T, name string, replicas int, rows *[]*killed, args ...string) *killScene {
	t.Helper()
	e.up(t, name, append([]string{"--replicas", fmt.Sprint(replicas)}, args...)...)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, replicas))
	c, _ := e.workload(t, name)
	s := &killScene{
		environment: e, t: t, name: name, replicas: replicas, manager: e.management(t), cluster: c,
		killers: map[string]*killer{}, usual: map[string]time.Duration{}, rows: rows,
	}
	s.uids = s.identities()
	return s
}

// identities are the UIDs of Machines and Nodes.
func (s *killScene) identities() []string {
	all := uids(s.machineObjects(s.t, s.name))
	nodes, err := s.cluster.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		return append(all, err.Error())
	}
	for i := range nodes.Items {
		all = append(all, nodes.Items[i].Name+" "+string(nodes.Items[i].UID))
	}
	slices.Sort(all)
	return all
}

// tried has updates killed as told. What met nothing, or had no turn, is tried with further updates.
func (s *killScene) tried(todo []kill) {
	s.t.Helper()
	for range 3 {
		if len(todo) == 0 {
			return
		}
		todo = s.updated(todo)
	}
	s.neverMet(todo)
}

// updated carries out one update that ends with all as wanted, and returns the kills that met nothing.
func (s *killScene) updated(todo []kill) []kill {
	s.t.Helper()
	s.number++
	machine := s.begin()
	k := s.killerOf(machine)
	s.killing(k, todo, func() {
		eventually(s.t, fmt.Sprintf("update %d", s.number), 2*patience, func() string { return s.reached(machine) })
		s.kept = s.number
	}, func() []string { return s.judge(machine) })
	return s.left(k)
}

// left are the kills of the last update that met nothing or had no turn.
func (s *killScene) left(k *killer) []kill {
	var left []kill
	for _, d := range k.done {
		if d.missed != "" {
			left = append(left, d.kill)
		}
	}
	return append(left, k.todo...)
}

// killing kills while f waits for the end of an update, and notes what became of that.
func (s *killScene) killing(k *killer, todo []kill, f func(), judge func() []string) {
	s.t.Helper()
	s.outcome, s.wrong, k.done = "resumed", nil, nil
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); k.watch(ctx, todo) }()
	ended := time.Time{}
	defer func() { // also when the test is given up
		stop()
		<-over
		for _, d := range k.done {
			if !ended.IsZero() && d.missed == "" {
				d.outcome, d.seconds, d.wrong = s.outcome, ended.Sub(d.when).Seconds(), s.wrong
			}
			*s.rows = append(*s.rows, d)
			s.t.Logf("killed %s, %s: %s %s %v", d.at, d.moment, d.missed, d.outcome, d.wrong)
		}
		s.t.Logf("took %v", k.usual)
	}()
	f()
	at := time.Now()
	s.wrong = append(s.wrong, judge()...)
	ended = at
}

// killerOf watches a machine. What is known of the steps' times goes from one to the next.
func (s *killScene) killerOf(machine string) *killer {
	if s.killers[machine] == nil {
		s.killers[machine] = newKiller(s.t, s.environment, machine)
		s.killers[machine].usual = s.usual
	}
	return s.killers[machine]
}

// eventTTL is the argument of the API server that an update changes, to lifetime, and eventBurst the field of the kubelet's configuration,
// to burst.
const (
	eventTTL   = "event-ttl"
	eventBurst = "eventBurst"
)

func lifetime(number int) string { return fmt.Sprintf("%dm", 60+number) }
func burst(number int) int       { return 100 + number }

// mark writes what must be there after the update, and notes which upgrades are not of it.
func (s *killScene) mark() {
	s.t.Helper()
	s.earlier = map[types.UID]bool{}
	for _, u := range s.nodeUpgrades(s.t, s.name) {
		s.earlier[u.UID] = true
	}
	eventually(s.t, "what the update must keep is written", patience, func() string {
		marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.marker(s.number), Namespace: "default"}}
		_, err := s.cluster.CoreV1().ConfigMaps("default").Create(context.Background(), marker, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
}

func (s *killScene) marker(number int) string { return fmt.Sprintf("before-%d", number) }

// begin wants something else of the node, and returns its Machine: the only one, or the one whose member leads.
func (s *killScene) begin() string {
	s.t.Helper()
	s.mark()
	eventually(s.t, "the kubelets' configuration is changed", patience, func() string {
		if err := s.configureKubelets(); err != nil {
			return err.Error()
		}
		return ""
	})
	if s.replicas == 1 {
		s.argue(s.t, s.name, eventTTL, lifetime(s.number))
		return s.machines(s.t, s.name)[0]
	}
	machine := s.leader(s.t, s.machines(s.t, s.name))
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, s.number), Namespace: "default"},
		Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: machine}, KubernetesVersion: newer, NodeType: upgradev1.ControlPlane,
			Drain: upgradev1.DrainSpec{Policy: upgradev1.DrainRequired, TimeoutSeconds: ptr.To[int32](120)},
		},
	}
	if err := s.manager.Create(context.Background(), u); err != nil {
		s.t.Fatal(err)
	}
	return machine
}

// configureKubelets changes the configuration that kubeadm gives to kubelets.
func (s *killScene) configureKubelets() error {
	ctx, maps := context.Background(), s.cluster.CoreV1().ConfigMaps("kube-system")
	stored, err := maps.Get(ctx, "kubelet-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var c map[string]any
	if err := yaml.Unmarshal([]byte(stored.Data["kubelet"]), &c); err != nil {
		return err
	}
	c[eventBurst] = burst(s.number)
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	stored.Data["kubelet"] = string(text)
	_, err = maps.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// reached says what is missing until an update has ended with all as wanted. One that was rolled back is tried again, as a person would.
func (s *killScene) reached(machine string) string {
	u, p := s.underway(machine)
	if u != nil && upgradepod.StateOf(u) == upgradepod.Failed && u.Annotations[upgradev1.RetryAnnotation] == "" {
		if p.Reason == upgradev1.RolledBack {
			s.outcome = "rolled back, and brought forward by a retry"
		} else {
			s.wrong = append(s.wrong, p.Message)
		}
		s.t.Logf("%s %s: %s", u.Name, p.Reason, p.Message)
		if _, err := s.try("upgrade", "retry", s.name); err != nil {
			return err.Error()
		}
		return p.Message
	}
	if s.replicas > 1 {
		if u == nil || !ptr.Deref(u.Status.Completed, false) {
			return cmp.Or(p.Message, "it has not begun")
		}
		return ""
	}
	kcp := s.controlPlane(s.t, s.name)
	if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) {
		return p.Reason + ": " + p.Message
	}
	return s.serversSay(lifetime(s.number))
}

// underway is the upgrade of a machine that this update is about, and what it says.
func (s *killScene) underway(machine string) (*upgradev1.NodeUpgrade, metav1.Condition) {
	for _, u := range s.nodeUpgrades(s.t, s.name) {
		if u.Spec.Machine.Name == machine && !s.earlier[u.UID] {
			return &u, ptr.Deref(meta.FindStatusCondition(u.Status.Conditions, upgradev1.Progressing), metav1.Condition{})
		}
	}
	return nil, metav1.Condition{}
}

// serversSay says what is missing until the API server has the argument of an update.
func (s *killScene) serversSay(ttl string) string {
	pods, err := s.cluster.CoreV1().Pods("kube-system").List(context.Background(),
		metav1.ListOptions{LabelSelector: "component=kube-apiserver"})
	if err != nil {
		return err.Error()
	}
	for _, p := range pods.Items {
		if !slices.Contains(p.Spec.Containers[0].Command, "--"+eventTTL+"="+ttl) {
			return p.Name + " has " + strings.Join(p.Spec.Containers[0].Command, " ")
		}
	}
	return ""
}

// wentBack has updates that cannot serve go back, with the service killed on that way, and each time brings the node forward again. What
// met nothing is tried with further updates. With damage, the old version cannot read etcd's data either, so that these come from the
// snapshot.
func (s *killScene) wentBack(damage bool, todo []kill) {
	s.t.Helper()
	for range 3 {
		if len(todo) == 0 {
			return
		}
		todo = s.goBack(damage, todo)
		s.updated(nil)
	}
	s.neverMet(todo)
}

// neverMet notes kills that met nothing in all updates.
func (s *killScene) neverMet(todo []kill) {
	for _, left := range todo {
		*s.rows = append(*s.rows, &killed{kill: left, missed: "it was never met"})
	}
}

// unknownArgument is one that no API server knows.
const unknownArgument = "no-such-argument"

// goBack has one update go back, and returns the kills that met nothing.
func (s *killScene) goBack(damage bool, todo []kill) []kill {
	s.t.Helper()
	s.number++
	machine := s.machines(s.t, s.name)[0]
	k := s.killerOf(machine)
	for phase, like := range map[steps.Phase]steps.Phase{steps.Reverting: steps.Stopping, steps.Restarting: steps.Proving} {
		if _, seen := s.usual[string(phase)]; !seen {
			s.usual[string(phase)] = s.usual[string(like)]
		}
	}
	if damage {
		s.restored++
		k.damage = func() { s.damage(k) }
	}
	s.mark()
	s.argue(s.t, s.name, unknownArgument, "nonsense")
	s.killing(k, todo, func() {
		eventually(s.t, "the node was put back", 2*patience, func() string {
			u, p := s.underway(machine)
			if u == nil || p.Reason != upgradev1.RolledBack {
				return p.Reason + ": " + p.Message
			}
			s.outcome = "rolled back"
			s.t.Logf("it says: %s", p.Message)
			return ""
		})
	}, func() []string {
		wrong := s.common(machine)
		if damage {
			wrong = append(wrong, s.keptAside(k)...)
		}
		return append(wrong, s.lacking(func() string { return s.serversSay(lifetime(s.kept)) })...)
	})
	return s.left(k)
}
