package stacked

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// requests counts what costs a request in a manager: all writes, and those reads
// that its cache does not answer.
type requests struct{ n atomic.Int64 }

func (q *requests) cached(o any) bool {
	switch o.(type) {
	case *upgradev1.NodeUpgradeList, *upgradev1.ControlPlaneUpgradeList, *controlplanev1.KubeadmControlPlane, *clusterv1.Cluster,
		*clusterv1.MachineList, *bootstrapv1.KubeadmConfigList, *metav1.PartialObjectMetadata,
		*bootstrapv1.KubeadmConfig, *clusterv1.MachineHealthCheck, *unstructured.Unstructured, *unstructured.UnstructuredList:
		return true
	}
	return false
}

func (q *requests) funcs(direct bool) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if direct || !q.cached(o) {
				q.n.Add(1)
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, options ...client.ListOption) error {
			if direct || !q.cached(o) {
				q.n.Add(1)
			}
			return c.List(ctx, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			q.n.Add(1)
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			q.n.Add(1)
			return c.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			q.n.Add(1)
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
	}
}

// TestRequestsAtRest counts ten minutes at rest. Ten requests a minute are allowed.
func TestRequestsAtRest(t *testing.T) {
	const minutes = 10
	w := grown(t, 3)
	q := &requests{}
	w.r.Client = interceptor.NewClient(w.client, q.funcs(false))
	w.r.APIReader = interceptor.NewClient(w.client, q.funcs(true))
	m := w.r.Memories.Of(kcpKey)
	w.surveys = 0
	for passed := time.Duration(0); passed < minutes*time.Minute; {
		result := w.turn()
		if result.RequeueAfter < observe.SoonSteady {
			t.Fatalf("looks again after %v, want %v at rest", result.RequeueAfter, observe.SoonSteady)
		}
		// A Node reports and a Machine is resynced meanwhile: nothing that matters has changed.
		w.turn()
		passed += result.RequeueAfter
		m.Surveys.At = m.Surveys.At.Add(-result.RequeueAfter)
		m.Secrets.Read = m.Secrets.Read.Add(-result.RequeueAfter)
	}
	if perMinute := float64(q.n.Load()) / minutes; perMinute > 2 {
		t.Errorf("%.1f requests a minute at rest, want 2 at most", perMinute)
	} else {
		t.Logf("%.1f requests a minute at rest", perMinute)
	}
	if want := int(minutes * time.Minute / observe.SoonSteady); w.surveys > want {
		t.Errorf("asked etcd %d times in %d minutes at rest, want %d at most", w.surveys, minutes, want)
	}
	if w.rested == 0 {
		t.Error("connections to etcd stay open at rest")
	}
}

// TestConnectionsStayWhileBusy: those to etcd are ended where all is as wanted, and nowhere else.
func TestConnectionsStayWhileBusy(t *testing.T) {
	w := grown(t, 3)
	w.members[1].Health = plan.Unhealthy
	w.forgetEtcd()
	w.rested = 0
	w.turn()
	if w.rested > 0 {
		t.Error("connections to etcd were ended while a member is ill")
	}
}

// TestSurveysWhileBusy: however often something is reported, etcd is asked once a second.
func TestSurveysWhileBusy(t *testing.T) {
	w := grown(t, 3)
	w.members[1].Health = plan.Unhealthy
	w.forgetEtcd()
	w.surveys = 0
	began := time.Now()
	w.turn()
	if again := w.turn().RequeueAfter; again != observe.SoonBusy {
		t.Errorf("looks again after %v, want %v", again, observe.SoonBusy)
	}
	for range 10 {
		w.turn()
	}
	if passed := time.Since(began); w.surveys > 1+int(passed/observe.SurveyAge) {
		t.Errorf("asked etcd %d times within %v", w.surveys, passed)
	}
}

// TestChangeAtRest: what changes at rest is not judged by what etcd said half a minute ago.
func TestChangeAtRest(t *testing.T) {
	w := grown(t, 3)
	m := w.r.Memories.Of(kcpKey)
	w.turn()
	m.Surveys.At = m.Surveys.At.Add(-10 * time.Second)
	w.surveys = 0
	if w.turn(); w.surveys != 0 {
		t.Errorf("asked etcd %d times although nothing has changed", w.surveys)
	}
	w.view.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
	if w.turn(); w.surveys != 1 {
		t.Errorf("asked etcd %d times after a pod has failed, want once", w.surveys)
	}
}

func TestStatus(t *testing.T) {
	w := grown(t, 3)
	for _, m := range w.machines() {
		conditions.Set(&m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
		if m.Name != "demo-cp-3" {
			conditions.Set(&m, metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "Available"})
		}
		if err := w.client.Status().Update(context.Background(), &m); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	s := w.kcp().Status
	for name, got := range map[string]*int32{"replicas": s.Replicas, "readyReplicas": s.ReadyReplicas,
		"upToDateReplicas": s.UpToDateReplicas} {
		if ptr.Deref(got, -1) != 3 {
			t.Errorf("%s is %v, want 3", name, ptr.Deref(got, -1))
		}
	}
	if ptr.Deref(s.AvailableReplicas, -1) != 2 {
		t.Errorf("availableReplicas is %v, want 2", ptr.Deref(s.AvailableReplicas, -1))
	}
	if s.Selector != "cluster.x-k8s.io/cluster-name=demo,cluster.x-k8s.io/control-plane=" || s.ObservedGeneration != 1 ||
		len(s.Versions) != 1 {
		t.Errorf("selector %q, generation %d, versions %v", s.Selector, s.ObservedGeneration, s.Versions)
	}
	if s.Plan.Step != "Nothing" || s.Plan.Rule == "" || s.Plan.Reason == "" || s.Plan.Message == "" {
		t.Errorf("plan is %+v", s.Plan)
	}
	if got := told(s.Conditions, "MachinesReady"); got != "True Ready" {
		t.Errorf("MachinesReady is %s", got)
	}
	if got := told(w.machine("demo-cp-2").Status.Conditions, "EtcdMemberHealthy"); got != "True Healthy" {
		t.Errorf("EtcdMemberHealthy of a Machine is %s", got)
	}
	if got := told(w.machine("demo-cp-2").Status.Conditions, "Ready"); got != "True Ready" {
		t.Errorf("the core's own condition of a Machine is %s", got)
	}
}

func TestEventsOnce(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	w.settle()
	first := w.heard()
	for _, want := range []string{"WriteCertificates", "WriteKubeconfig", "Create demo-cp-1"} {
		if n := len(slices.DeleteFunc(slices.Clone(first), func(e string) bool { return !strings.Contains(e, want) })); n != 1 {
			t.Errorf("%d events tell of %s, want one: %v", n, want, first)
		}
	}
	for range 3 {
		w.turn()
	}
	w.use(w.client) // a restart repeats nothing either
	w.turn()
	if again := w.heard(); len(again) != 0 {
		t.Errorf("told again: %v", again)
	}
}

// TestFailure: a step that fails is told, once, and tried again.
func TestFailure(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	broken := errors.New("the infrastructure provider is away")
	w.intercept(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object,
		...client.CreateOption) error {
		return broken
	}})
	for range 3 {
		if _, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); !errors.Is(err, broken) {
			t.Fatalf("error is %v", err)
		}
	}
	if p := w.kcp().Status.Plan; p.Reason != "Initializing" ||
		!strings.Contains(p.Message, "the last try failed: creating LocalMachine demo-cp-1: the infrastructure provider is away") {
		t.Errorf("plan is %+v", p)
	}
	warnings := slices.DeleteFunc(w.heard(), func(e string) bool { return !strings.Contains(e, "StepFailed") })
	if len(warnings) != 1 {
		t.Errorf("told %d times: %v", len(warnings), warnings)
	}
	w.r.Client = w.client
	w.settle()
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1"}) {
		t.Errorf("machines are %v once the provider is back, want the first number to be used", got)
	}
}

// TestConflict: facts that are no longer true end a turn quietly.
func TestConflict(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	w.intercept(interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "kubeadmcontrolplanes"}, "demo-cp", errors.New("changed"))
	}})
	if again := w.turn().RequeueAfter; again != observe.SoonAfterConflict {
		t.Errorf("looks again after %v", again)
	}
	if got := w.objects(); got != "[] [] []" {
		t.Errorf("made %s", got)
	}
}

func TestPaused(t *testing.T) {
	w := grown(t, 1)
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(context.Background(), clusterKey, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Paused = ptr.To(true)
	if err := w.client.Update(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	w.scale(3)
	w.surveys = 0
	p := w.settle()
	if p.Reason != "Paused" || len(w.machineNames()) != 1 || w.surveys != 0 {
		t.Errorf("plan is %+v, machines %v, etcd asked %d times", p, w.machineNames(), w.surveys)
	}
	if got := told(w.kcp().Status.Conditions, "Paused"); !strings.HasPrefix(got, "True Paused") {
		t.Errorf("Paused is %s", got)
	}
	if got := told(w.kcp().Status.Conditions, "ScalingUp"); got != "False NotScalingUp" {
		t.Errorf("ScalingUp was written while paused: %s", got)
	}
	if again := w.turn().RequeueAfter; again != 0 {
		t.Errorf("looks again after %v while paused", again)
	}
	cluster.Spec.Paused = nil
	if err := w.client.Update(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	if w.settle(); len(w.machineNames()) != 3 || !strings.HasPrefix(told(w.kcp().Status.Conditions, "Paused"), "False") {
		t.Errorf("machines are %v after the pause", w.machineNames())
	}
}

func TestWithoutCluster(t *testing.T) {
	kcp := testKCP(3)
	kcp.OwnerReferences, kcp.Finalizers = nil, nil
	w := newWorld(t, kcp)
	before := w.turn()
	if p := w.kcp().Status.Plan; p.Reason != "NoCluster" || before.RequeueAfter != 0 || len(w.kcp().Finalizers) != 0 {
		t.Errorf("plan is %+v, result %+v, finalizers %v", p, before, w.kcp().Finalizers)
	}
	version := w.kcp().ResourceVersion
	if w.turn(); w.kcp().ResourceVersion != version || len(w.heard()) != 1 {
		t.Error("told twice that there is no Cluster")
	}
}

// TestOtherManager: a control plane is handed to a manager that runs beside, and back.
func TestOtherManager(t *testing.T) {
	w := grown(t, 1)
	w.r.LeaveLabelled = true
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Labels = map[string]string{clusterv1.WatchLabel: "upstream"}
		kcp.Spec.Replicas = ptr.To[int32](3)
	})
	p := w.settle()
	if len(w.machineNames()) != 1 || p.Reason != "OtherManager" || !strings.Contains(p.Message, "cluster.x-k8s.io/watch-filter=upstream") ||
		w.forgotten == 0 {
		t.Errorf("machines are %v, %+v", w.machineNames(), p)
	}
	version := w.kcp().ResourceVersion
	if w.turn(); w.kcp().ResourceVersion != version {
		t.Error("told twice that another keeps it")
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Labels = nil })
	if w.settle(); len(w.machineNames()) != 3 {
		t.Errorf("machines are %v once it is ours again", w.machineNames())
	}
}

func TestFinalizerFirst(t *testing.T) {
	kcp := testKCP(3)
	kcp.Finalizers = nil
	w := newWorld(t, testCluster(), kcp)
	if w.turn(); len(w.kcp().Finalizers) != 1 || len(w.names(&corev1.SecretList{})) != 0 {
		t.Errorf("after the first turn: finalizers %v, secrets %v", w.kcp().Finalizers, w.names(&corev1.SecretList{}))
	}
}

// TestClusterGone: a control plane whose Cluster was deleted by force can still go.
func TestClusterGone(t *testing.T) {
	w := grown(t, 1)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name}}
	for _, o := range []client.Object{cluster, w.kcp()} {
		if err := w.client.Delete(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	w.bury()
	if w.settle(); w.kcp() != nil {
		t.Errorf("still there: %+v", w.kcp().Status.Plan)
	}
}

// TestGoneByForce: who takes the finalizer away leaves no connection behind.
func TestGoneByForce(t *testing.T) {
	w := grown(t, 1)
	kcp := w.kcp()
	kcp.Finalizers = nil
	if err := w.client.Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.turn()
	}
	if w.forgotten != 2 { // the connection to its API server, and those to its etcd
		t.Errorf("%d connections were ended, want 2", w.forgotten)
	}
}

// TestForeignMachines: beside somebody else's machine no first one is made, and nothing is kept.
func TestForeignMachines(t *testing.T) {
	foreign := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""}}}
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "Other", Name: "other", UID: "u", Controller: ptr.To(true)}}
	kcp := testKCP(3)
	kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
	w := newWorld(t, testCluster(), kcp, foreign)
	p := w.settle()
	if p.Reason != "CannotAdopt" || !strings.Contains(p.Message, "theirs: it is controlled by Other other") || len(w.machineNames()) != 1 {
		t.Errorf("plan is %+v, machines %v", p, w.machineNames())
	}
	if got := w.names(&clusterv1.MachineHealthCheckList{}); len(got) != 0 {
		t.Errorf("the health checks %v would mark somebody else's machine", got)
	}
	if got := w.names(&corev1.SecretList{}); len(got) != 0 {
		t.Errorf("the secrets %v were made", got)
	}
}

func TestBrokenSecret(t *testing.T) {
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-ca",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Data: map[string][]byte{"tls.crt": []byte("x")}}
	w := newWorld(t, testCluster(), testKCP(1), broken)
	p := w.settle()
	if p.Reason != "CertificatesInvalid" || !strings.Contains(p.Message, "demo-ca: tls.crt holds no certificate") ||
		len(w.machineNames()) != 0 {
		t.Errorf("plan is %+v, machines %v", p, w.machineNames())
	}
}

func TestAgain(t *testing.T) {
	tests := []struct {
		name   string
		change func(*group.Turn)
		d      plan.Decision
		want   time.Duration
	}{
		{"all is as wanted", func(*group.Turn) {}, plan.Decision{Step: plan.Step{Verb: plan.Nothing}}, observe.SoonSteady},
		{"a person is waited for", func(*group.Turn) {}, waiting, observe.SoonAtRest},
		{"the core asks for an earlier look", func(*group.Turn) {}, plan.Decision{Step: plan.Step{Verb: plan.Nothing}, Again: time.Second},
			time.Second},
		{"and not for a later one", func(*group.Turn) {}, plan.Decision{Step: plan.Step{Verb: plan.Nothing}, Again: time.Hour},
			observe.SoonSteady},
		{"after a step", func(*group.Turn) {}, acting, observe.SoonAfterAct},
		{"a learner", func(s *group.Turn) { s.Facts.Etcd.Members[0].Learner = true }, waiting, observe.SoonBusy},
		{"a learner, and nothing new for long", func(s *group.Turn) {
			s.Facts.Etcd.Members[0].Learner = true
			s.Facts.Now = time.Now().Add(time.Hour)
		}, waiting, observe.SoonLongBusy},
		{"a machine that is being deleted", func(s *group.Turn) { s.Facts.Machines[0].Deleting = true }, waiting, observe.SoonBusy},
		{"a component that is not healthy", func(s *group.Turn) { s.Facts.Machines[0].Components[0].Health = plan.Unhealthy },
			waiting, observe.SoonBusy},
		{"fewer members than machines", func(s *group.Turn) { s.Facts.Etcd.Members = s.Facts.Etcd.Members[1:] }, waiting, observe.SoonBusy},
		{"members that are not known", func(s *group.Turn) { s.Facts.Etcd.Known = false }, waiting, observe.SoonBusy},
		{"members that disagree", func(s *group.Turn) { s.Facts.Etcd.Agreed = false }, waiting, observe.SoonBusy},
		{"out of reach", func(s *group.Turn) { s.Facts.Cluster.Reachable = false }, waiting, observe.SoonBusy},
		{"the first machine's API server answers", func(s *group.Turn) { s.Facts.Group.Initialized = false }, waiting, observe.SoonInit},
		{"the first machine comes up", func(s *group.Turn) { s.Facts.Group.Initialized, s.Facts.Cluster.Reachable = false, false }, waiting,
			observe.SoonAtRest},
		{"somebody else's machine", func(s *group.Turn) { s.Facts.Uncontrolled = []plan.UncontrolledMachine{{}} }, waiting, observe.SoonMissing},
		{"something must be given", func(s *group.Turn) { s.Refuse(plan.Refusal{Reason: "X", Message: "x"}) }, waiting, observe.SoonMissing},
		{"paused", func(s *group.Turn) { s.Facts.Group.Paused = true }, waiting, 0},
		{"the whole group goes", func(s *group.Turn) { s.Facts.Group.Deleting = true }, waiting, observe.SoonAtRest},
		{"hibernated", func(s *group.Turn) {
			s.Facts.Power, s.Facts.Machines = plan.Power{Hibernate: true, Backup: "b"}, nil
		}, waiting, observe.SoonSteady},
		{"hibernated, and a machine goes", func(s *group.Turn) {
			s.Facts.Power = plan.Power{Hibernate: true, Backup: "b"}
			s.Facts.Machines = s.Facts.Machines[:1]
		}, waiting, observe.SoonBusy},
		{"before the backup of a hibernation", func(s *group.Turn) {
			s.Facts.Power, s.Facts.Machines = plan.Power{Hibernate: true}, nil
		}, waiting, observe.SoonBusy},
		{"woken", func(s *group.Turn) {
			s.Facts.Power, s.Facts.Machines = plan.Power{Backup: "b"}, nil
		}, waiting, observe.SoonBusy},
	}
	for _, test := range tests {
		s := fine()
		for _, m := range s.Machines {
			m.CreationTimestamp = metav1.Now()
		}
		test.change(s)
		if got := judged(s).Again(test.d); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestAgainInCrowd: where something goes on in many groups, each is looked at less often for what is not watched; what rests does not
// count.
func TestAgainInCrowd(t *testing.T) {
	s := fine()
	s.Facts.Etcd.Members[0].Learner = true
	for _, m := range s.Machines {
		m.CreationTimestamp = metav1.Now()
	}
	s.Controller = &group.Controller{}
	key := func(i int) client.ObjectKey { return client.ObjectKey{Name: "other-" + strconv.Itoa(i)} }
	for _, row := range []struct {
		others int
		want   time.Duration
	}{{0, time.Second}, {4, time.Second}, {5, 2 * time.Second}, {19, 4 * time.Second}, {20, 5 * time.Second}, {500, 5 * time.Second}} {
		for i := range row.others {
			s.Memories.Moves(key(i), true)
		}
		if got := judged(s).Again(waiting); got != row.want {
			t.Errorf("beside %d others: %v, want %v", row.others, got, row.want)
		}
	}
	for i := range 500 {
		s.Memories.Moves(key(i), false)
	}
	if got := judged(s).Again(waiting); got != observe.SoonBusy {
		t.Errorf("when the others rest: %v, want %v", got, observe.SoonBusy)
	}
	if got := judged(s).Again(acting); got != observe.SoonAfterAct {
		t.Errorf("after a step: %v, want %v", got, observe.SoonAfterAct)
	}
}

// TestMoves: a group counts among those in which something goes on while there is news of it, until it is as wanted, or gone.
func TestMoves(t *testing.T) {
	w := grown(t, 3)
	for i := range 4 {
		w.r.Memories.Moves(client.ObjectKey{Name: "other-" + strconv.Itoa(i)}, true)
	}
	crowd := func(when string, want time.Duration) {
		t.Helper()
		if got := w.r.Memories.Crowd(); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	w.settle()
	crowd("as wanted", 1)
	w.members[1].Health = plan.Unhealthy
	w.forgetEtcd()
	w.turn()
	crowd("a member is ill", 2)
	early, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
	if err != nil || early.RequeueAfter <= 0 || early.RequeueAfter > 50*time.Millisecond {
		t.Errorf("just after a look, in a crowd: the next after %v, %v; want 50 ms at most", early.RequeueAfter, err)
	}
	w.members[1].Health = plan.Healthy
	w.forgetEtcd()
	w.turn()
	crowd("as wanted again", 1)
	w.members[1].Health = plan.Unhealthy
	w.forgetEtcd()
	w.turn()
	w.r.Forget(kcpKey)
	crowd("gone", 1)
}

// TestRetold: what machines say of themselves in other words is told later, and at once where it says something else.
func TestRetold(t *testing.T) {
	w := grown(t, 1)
	w.settle()
	w.r.RetellAfter = time.Hour
	ready := func(status metav1.ConditionStatus, reason, message string) string {
		m := w.machine("demo-cp-1")
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: status, Reason: reason, Message: message})
		if err := w.client.Status().Update(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		w.turn()
		return conditions.Get(w.kcp(), clusterv1.MachinesReadyCondition).Message
	}
	ready(metav1.ConditionTrue, "Ready", "")
	if said := ready(metav1.ConditionFalse, "NotReady", "the first word"); !strings.Contains(said, "the first word") {
		t.Errorf("something else is not told at once: %q", said)
	}
	if said := ready(metav1.ConditionFalse, "NotReady", "the second word"); !strings.Contains(said, "the first word") {
		t.Errorf("other words are told at once: %q", said)
	}
	if said := ready(metav1.ConditionUnknown, "Unknown", "the third word"); !strings.Contains(said, "the first word") {
		t.Errorf("machines that are not ready, and then not known to be, are told of at once: %q", said)
	}
	w.r.RetellAfter = 0
	if said := ready(metav1.ConditionFalse, "NotReady", "the second word"); !strings.Contains(said, "the second word") {
		t.Errorf("other words are not told later: %q", said)
	}
	w.r.RetellAfter = time.Hour
	if said := ready(metav1.ConditionTrue, "Ready", ""); strings.Contains(said, "word") {
		t.Errorf("something else is not told at once: %q", said)
	}
}

// TestNewMachineIsToldLater: a Machine that a step has just made has nothing written into its status at once.
func TestNewMachineIsToldLater(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	w.r.RetellAfter = time.Hour
	w.turn()
	w.turn()
	if m := w.machine("demo-cp-1"); len(m.Status.Conditions) != 0 {
		t.Errorf("a Machine that was just made is told of: %+v", m.Status.Conditions)
	}
	w.r.RetellAfter = 0
	if w.turn(); len(w.machine("demo-cp-1").Status.Conditions) == 0 {
		t.Error("a Machine without a node is never told of")
	}
}

// TestNewMachineApplied: what a machine that nobody has written to yet is told is applied, so that no write of Cluster API's is in its way.
func TestNewMachineApplied(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	var kinds []types.PatchType
	w.intercept(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Machine" || reflect.TypeOf(o) == reflect.TypeFor[*clusterv1.Machine]() {
				kinds = append(kinds, patch.Type())
			}
			return grouptest.StatusPatch(ctx, c, sub, o, patch, options...)
		},
	})
	w.settle()
	if len(kinds) == 0 || slices.ContainsFunc(kinds, func(k types.PatchType) bool { return k != types.ApplyPatchType }) {
		t.Errorf("the first conditions of a machine are written as %v", kinds)
	}
}

// TestWaitForOwnStep: the wait for what a step began is told by the status, and by no event: that of the step says it. Waits for what
// others do, and what holds a step up, have events of their own.
func TestWaitForOwnStep(t *testing.T) {
	w := grown(t, 1)
	w.heard()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](3) })
	if told := w.settle(); told.Reason != "Joining" {
		t.Fatalf("told is %+v", told)
	}
	heard := strings.Join(w.heard(), "\n")
	if !strings.Contains(heard, "Create demo-cp-2") || strings.Contains(heard, "Joining") {
		t.Errorf("a machine is made: heard\n%s", heard)
	}

	w = grown(t, 3)
	w.heard()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](1) })
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-2")); err != nil {
		t.Fatal(err)
	}
	told := w.settle()
	if heard := strings.Join(w.heard(), "\n"); told.Rule != plan.SettleRule || !strings.Contains(heard, "MachineDeleting Wait") {
		t.Errorf("a person deletes a machine: told is %+v, heard\n%s", told, heard)
	}
}
