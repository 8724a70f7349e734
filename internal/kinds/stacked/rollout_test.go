package stacked

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// change lets the user change the control plane.
func (w *world) change(f func(*controlplanev1.KubeadmControlPlane)) {
	w.t.Helper()
	kcp := w.kcp()
	f(kcp)
	kcp.Generation++
	if err := w.client.Update(context.Background(), kcp); err != nil {
		w.t.Fatal(err)
	}
}

// live lets all that is under way end, until the control plane is at rest: machines come up, machines go.
func (w *world) live() controlplanev1.PlanStatus {
	w.t.Helper()
	return w.liveUntil("AsWanted")
}

// liveUntil lets all that is under way end, until that is the reason of what is decided.
func (w *world) liveUntil(reason string) controlplanev1.PlanStatus {
	w.t.Helper()
	var p controlplanev1.PlanStatus
	for range 60 {
		w.forgetEtcd()
		p = w.settle()
		if p.Reason == reason {
			return p
		}
		moved := false
		for _, m := range w.machines() {
			switch {
			case !m.DeletionTimestamp.IsZero():
				w.terminate(m.Name)
				moved = true
			case !slices.ContainsFunc(w.members, func(e etcd.Member) bool { return e.Name == m.Name }):
				w.join(m.Name)
				moved = true
			}
		}
		w.forgetEtcd()
		w.settle()
		w.bury()
		if !moved {
			return p
		}
	}
	w.t.Fatalf("no end: %+v", p)
	return p
}

func upgrade(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.37.0" }

// TestRollout takes three machines to another version, with surge and without.
func TestRollout(t *testing.T) {
	for name, surge := range map[string]*intstr.IntOrString{"surge": nil, "no surge": ptr.To(intstr.FromInt32(0))} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.config, w.addons = "kubernetesVersion v1.36.3, v1.37.0 wanted", "kube-proxy is v1.36.3, v1.37.0 wanted"
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
				upgrade(kcp)
				kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = surge
			})
			w.settle()
			if w.config != "" {
				t.Error("the first step is taken before kubeadm's configuration is up to date")
			}
			if w.addons == "" {
				t.Error("the add-ons are updated before the machines")
			}
			if c := conditions.Get(w.machine("demo-cp-1"),
				clusterv1.MachineUpToDateCondition); c.Message != "spec.version: v1.36.3, wanted v1.37.0" {
				t.Errorf("UpToDate says %q", c.Message)
			}
			if n := len(w.machines()); (n == 4) != (surge == nil) {
				t.Errorf("%d machines after the first step", n)
			}
			if p := w.live(); p.Step != string(plan.Nothing) {
				t.Fatalf("the rollout ends with %+v", p)
			}
			if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-4", "demo-cp-5", "demo-cp-6"}) {
				t.Errorf("machines %v", got)
			}
			domains := map[string]bool{}
			for _, m := range w.machines() {
				domains[m.Spec.FailureDomain] = true
				if m.Spec.Version != "v1.37.0" {
					t.Errorf("%s has version %s", m.Name, m.Spec.Version)
				}
			}
			if len(domains) != 3 {
				t.Errorf("the machines lie in %v", domains)
			}
			if w.addons != "" {
				t.Error("the add-ons are behind at the end")
			}
			moves := 0
			for _, e := range w.heard() {
				if strings.Contains(e, "MoveLeader") {
					moves++
				}
			}
			if moves != 1 {
				t.Errorf("the leadership was moved %d times", moves)
			}
		})
	}
}

// TestRefusedLeap: two minor versions at once are refused.
func TestRefusedLeap(t *testing.T) {
	w := grown(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.38.0" })
	if p := w.settle(); p.Reason != "InvalidVersionChange" || len(w.machines()) != 1 {
		t.Errorf("two minor versions at once: %+v", p)
	}
}

// ail lets a health check find a machine broken, whose etcd is dead.
func (w *world) ail(name string) {
	w.t.Helper()
	m := w.machine(name)
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
		Reason: "UnhealthyNode", Message: "Node is not reporting"})
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason})
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	defer w.locked()()
	for i := range w.members {
		if w.members[i].Name == name {
			w.members[i].Health, w.members[i].Leader = plan.Unhealthy, false
		}
	}
	if !slices.ContainsFunc(w.members, func(e etcd.Member) bool { return e.Leader }) {
		w.members[slices.IndexFunc(w.members, func(e etcd.Member) bool { return e.Health == plan.Healthy })].Leader = true
	}
}

// TestRepair replaces a machine that a health check found broken, and remembers that it did.
func TestRepair(t *testing.T) {
	w := grown(t, 3)
	w.ail("demo-cp-2")
	w.forgetEtcd()
	w.settle()
	if m := w.machine("demo-cp-2"); m.DeletionTimestamp.IsZero() {
		t.Fatalf("it is not deleted: %+v", w.kcp().Status.Plan)
	}
	if c := conditions.Get(w.machine("demo-cp-2"),
		clusterv1.MachineOwnerRemediatedCondition); c.Reason != upstream.KubeadmControlPlaneMachineRemediationMachineDeletingReason {
		t.Errorf("OwnerRemediated says %+v", c)
	}
	given := observe.ReplacementIn(w.kcp().Annotations, upstream.RemediationInProgressAnnotation)
	if given == nil || given.Machine != "demo-cp-2" || given.Retries != 0 || time.Since(given.Timestamp.Time) > time.Minute {
		t.Fatalf("the control plane remembers %+v", given)
	}
	if c := conditions.Get(w.kcp(), upstream.KubeadmControlPlaneRemediatingCondition); c.Status != metav1.ConditionTrue ||
		!strings.Contains(c.Message, "demo-cp-2 was given up") {
		t.Errorf("Remediating says %+v", c)
	}
	if p := w.live(); p.Step != string(plan.Nothing) {
		t.Fatalf("the repair ends with %+v", p)
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1", "demo-cp-3", "demo-cp-4"}) {
		t.Errorf("machines %v", got)
	}
	if got := observe.ReplacementIn(w.machine("demo-cp-4").Annotations, upstream.RemediationForAnnotation); got == nil || *got != *given {
		t.Errorf("demo-cp-4 took the place of %+v, want %+v", got, given)
	}
	kcp := w.kcp()
	if _, left := kcp.Annotations[upstream.RemediationInProgressAnnotation]; left {
		t.Error("the control plane still repairs")
	}
	if last := kcp.Status.LastRemediation; last.Machine != "demo-cp-2" || ptr.Deref(last.RetryCount, -1) != 0 {
		t.Errorf("the last remediation is %+v", last)
	}

	// The replacement breaks as well: that is a retry, and no more than one is allowed.
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Remediation.MaxRetry = ptr.To[int32](1) })
	w.ail("demo-cp-4")
	w.live()
	if got := observe.ReplacementIn(w.machine("demo-cp-5").Annotations, upstream.RemediationForAnnotation); got == nil ||
		got.Machine != "demo-cp-4" || got.Retries != 1 {
		t.Errorf("demo-cp-5 took the place of %+v", got)
	}
	w.ail("demo-cp-5")
	w.forgetEtcd()
	if p := w.settle(); p.Step != string(plan.Wait) || !w.machine("demo-cp-5").DeletionTimestamp.IsZero() {
		t.Errorf("after the last retry: %+v", p)
	}
	if c := conditions.Get(w.machine("demo-cp-5"),
		clusterv1.MachineOwnerRemediatedCondition); c.Reason != upstream.KubeadmControlPlaneMachineCannotBeRemediatedReason ||
		!strings.Contains(c.Message, "maxRetry is 1") {
		t.Errorf("OwnerRemediated says %+v", c)
	}
}

// TestTwoOfFive: both are replaced without anybody's help.
func TestTwoOfFive(t *testing.T) {
	w := grown(t, 5)
	w.ail("demo-cp-1")
	w.ail("demo-cp-4")
	if p := w.live(); p.Step != string(plan.Nothing) {
		t.Fatalf("it ends with %+v", p)
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-2", "demo-cp-3", "demo-cp-5", "demo-cp-6", "demo-cp-7"}) {
		t.Errorf("machines %v", got)
	}
}

func TestMark(t *testing.T) {
	failed := metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "NodeUnhealthy",
		Message: "a\nb"}
	owned := metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "WaitingForRemediation"}
	for _, test := range []struct {
		name string
		make func(*clusterv1.Machine)
		want string
	}{
		{"nobody's", func(*clusterv1.Machine) {}, ""},
		{"a person's", func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		}, "the annotation cluster.x-k8s.io/remediate-machine asks for it"},
		{"a health check's", func(m *clusterv1.Machine) { m.Status.Conditions = []metav1.Condition{failed, owned} }, "a; b"},
		{"without words", func(m *clusterv1.Machine) {
			f := failed
			f.Message = ""
			m.Status.Conditions = []metav1.Condition{f, owned}
		}, "NodeUnhealthy"},
		{"not left to the owner", func(m *clusterv1.Machine) { m.Status.Conditions = []metav1.Condition{failed} }, ""},
		{"well again", func(m *clusterv1.Machine) { m.Status.Conditions = []metav1.Condition{owned} }, ""},
	} {
		m := made("m")
		test.make(m)
		if got := machine.Marked(m); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestGates(t *testing.T) {
	kcp := testKCP(1)
	kcp.Spec.MachineTemplate.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Good"},
		{ConditionType: "Bad", Polarity: clusterv1.NegativePolarityCondition}}
	for _, test := range []struct{ good, bad, want string }{
		{"True", "False", ""}, {"False", "False", "Good"}, {"True", "True", "Bad"}, {"", "False", "Good"}, {"True", "", "Bad"},
	} {
		m := made("m")
		for kind, status := range map[string]string{"Good": test.good, "Bad": test.bad} {
			if status != "" {
				m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status)})
			}
		}
		if got := machine.ShutGate(m, kcp.Spec.MachineTemplate.Spec.ReadinessGates); got != test.want {
			t.Errorf("good %q, bad %q: %q, want %q", test.good, test.bad, got, test.want)
		}
	}
}

// TestPropagates: what follows the control plane without a rollout reaches all objects of a machine, once.
func TestPropagates(t *testing.T) {
	w := grown(t, 1)
	if _, marked := w.machine("demo-cp-1").Annotations["note"]; marked {
		t.Fatal("it is there before")
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Annotations = map[string]string{"note": "yes"}
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](42)
	})
	if p := w.settle(); p.Step != string(plan.Nothing) {
		t.Fatalf("it is rolled out: %+v", p)
	}
	m := w.machine("demo-cp-1")
	if ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0) != 42 || m.Annotations["note"] != "yes" ||
		m.Annotations[upstream.PreTerminateHookCleanupAnnotation] != "" {
		t.Errorf("the Machine has %+v, %v", m.Spec.Deletion, m.Annotations)
	}
	for _, o := range []client.Object{&infrav1.LocalMachine{}, &bootstrapv1.KubeadmConfig{}} {
		if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(m), o); err != nil || o.GetAnnotations()["note"] != "yes" {
			t.Errorf("%T has %v, %v", o, o.GetAnnotations(), err)
		}
	}
	before := m.ResourceVersion
	w.turn()
	if after := w.machine("demo-cp-1").ResourceVersion; after != before {
		t.Error("it is written again")
	}
}

// TestAutoRepair: the health check follows the control plane.
func TestAutoRepair(t *testing.T) {
	w := grown(t, 3)
	check := func() *clusterv1.MachineHealthCheck {
		c := &clusterv1.MachineHealthCheck{}
		if err := w.client.Get(context.Background(), kcpKey, c); err != nil {
			return nil
		}
		return c
	}
	if check() != nil {
		t.Fatal("nobody asked for a health check")
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{UnhealthyTimeoutSeconds: ptr.To[int32](30)}
	})
	w.settle()
	c := check()
	if c == nil || c.Spec.ClusterName != "demo" || c.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo.IntValue() != 1 {
		t.Fatalf("the health check is %+v", c)
	}
	if got := c.Spec.Checks; *got.NodeStartupTimeoutSeconds != 1200 || len(got.UnhealthyNodeConditions) != 2 ||
		*got.UnhealthyNodeConditions[0].TimeoutSeconds != 30 {
		t.Errorf("it checks %+v", got)
	}
	for _, m := range w.machines() {
		for key, value := range c.Spec.Selector.MatchLabels {
			if m.Labels[key] != value {
				t.Errorf("it does not select %s", m.Name)
			}
		}
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{} })
	w.settle()
	if got := check().Spec.Checks.UnhealthyNodeConditions[1].TimeoutSeconds; *got != 300 {
		t.Errorf("without a timeout it waits %d s", *got)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.AutoRepair = nil })
	w.settle()
	if check() != nil {
		t.Error("it is left when nobody asks for it any more")
	}
	foreign := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: kcpKey.Namespace, Name: kcpKey.Name}}
	if err := w.client.Create(context.Background(), foreign); err != nil {
		t.Fatal(err)
	}
	w.turn()
	if check() == nil {
		t.Error("somebody else's health check was deleted")
	}
}

// TestApproval: a rollout waits until a person has approved this revision of the spec, and the approval ends with it.
func TestApproval(t *testing.T) {
	w := grown(t, 3)
	before := w.kcp().Spec.Version
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version, kcp.Spec.Approval.Policy = "v1.37.0", controlplanev1.ApprovalRequired
	})
	if p := w.step(); p.Step != string(plan.Wait) || p.Reason != "ApprovalRequired" {
		t.Fatalf("before the approval: %+v", p)
	}
	approve := func(revision string) {
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Annotations[controlplanev1.ApprovedAnnotation] = revision
		})
	}
	approve("0123456789ab")
	if p := w.step(); p.Reason != "ApprovalRequired" {
		t.Fatalf("with another approval: %+v", p)
	}
	revision, err := observe.Revision(w.kcp())
	if err != nil {
		t.Fatal(err)
	}
	approve(revision)
	if p := w.step(); p.Reason != "Joining" || len(w.machines()) != 4 {
		t.Fatalf("approved: %+v", p)
	}
	if got := w.kcp().Annotations[controlplanev1.ApprovedAnnotation]; got != revision {
		t.Errorf("while the rollout goes on %q is approved", got)
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = before })
	revision, _ = observe.Revision(w.kcp())
	approve(revision)
	w.live()
	if got, there := w.kcp().Annotations[controlplanev1.ApprovedAnnotation]; there {
		t.Errorf("all is as wanted, and %q is approved", got)
	}
}

// replacements returns what is noted of replacements.
func (w *world) replacements() string {
	return w.kcp().Annotations[controlplanev1.ReplacementsAnnotation]
}

// TestReplacementLimit: of outdated machines one is changed in place in a day. It is noted before it is begun, what cannot be read holds
// the next, and a day later that is begun.
func TestReplacementLimit(t *testing.T) {
	w := grown(t, 3)
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Approval.MaxReplacementsPerDay = ptr.To(int32(1))
	})
	if p := w.step(); p.Reason != "UpdatingInPlace" {
		t.Fatalf("the first: %+v", p)
	}
	first := w.underway()
	noted, err := observe.ParseReplacements(w.replacements())
	if err != nil || len(noted) != 1 || noted[0].Machine != first.Spec.Machine.Name || time.Since(noted[0].At) > time.Minute {
		t.Fatalf("%q is noted, %v", w.replacements(), err)
	}
	w.endUpgrade(first, upgradev1.Done)
	if p := w.step(); p.Step != string(plan.Wait) || p.Reason != "ReplacementLimit" || len(w.upgrades()) != 0 {
		t.Fatalf("the second: %+v", p)
	}
	for value, want := range map[string]string{
		"demo-cp-2=yesterday": `quorate-replacements is "demo-cp-2=yesterday"; names of machines with times are accepted`,
		"demo-cp-2=" + time.Now().Add(-23*time.Hour).UTC().Format(time.RFC3339): "the next may be at " +
			time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:"),
	} {
		w.note(value)
		if p := w.step(); !strings.HasPrefix(p.Reason, "Replacement") || !strings.Contains(p.Message, want) || w.replacements() != value {
			t.Errorf("with %q: %+v", value, p)
		}
	}
	w.note("demo-cp-2=" + time.Now().Add(-24*time.Hour).UTC().Format(time.RFC3339))
	if p := w.step(); p.Reason != "UpdatingInPlace" || strings.Contains(w.replacements(), "demo-cp-2") ||
		!strings.HasPrefix(w.replacements(), w.underway().Spec.Machine.Name+"=") {
		t.Errorf("a day later: %+v, noted %q", p, w.replacements())
	}
}

// note has the annotation of replacements say something.
func (w *world) note(value string) {
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations[controlplanev1.ReplacementsAnnotation] = value
	})
}

// TestReplacementIsNotedFirst: a machine that is replaced is noted before it is deleted, and what could not be noted is not done.
func TestReplacementIsNotedFirst(t *testing.T) {
	for _, step := range []plan.Step{{Verb: plan.Delete, Machine: "demo-cp-2", Counts: true}, {Verb: plan.UpdateInPlace, Machine: "demo-cp-2",
		Counts: true}} {
		w := grown(t, 3)
		w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
		dead := errors.New("the process is dead")
		writes := 0
		w.intercept(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if writes++; writes == 1 && o.GetAnnotations()[controlplanev1.ReplacementsAnnotation] == "" {
					t.Errorf("%s: the first write is of %T %s, %v", step, o, o.GetName(), o.GetAnnotations())
				}
				return dead
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				t.Errorf("%s: it is deleted, and could not be noted", step)
				return dead
			},
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				t.Errorf("%s: it is begun, and could not be noted", step)
				return dead
			},
		})
		if err := w.scene().Do(context.Background(), step); !errors.Is(err, dead) || writes != 1 {
			t.Errorf("%s: %v, %d writes", step, err, writes)
		}
		w.use(w.client)
		if err := w.scene().Do(context.Background(), plan.Step{Verb: step.Verb, Machine: step.Machine}); err != nil || w.replacements() != "" {
			t.Errorf("%s without a limit: %v, noted %q", step.Verb, err, w.replacements())
		}
	}
}
