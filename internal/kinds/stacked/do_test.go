package stacked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
)

// scene reads the world as a turn would, without deciding.
func (w *world) scene() *group.Turn {
	w.t.Helper()
	s, wait, err := w.r.Observe(context.Background(), w.kcp(), testCluster())
	if err != nil || wait > 0 {
		w.t.Fatalf("observing: %v, wait %v", err, wait)
	}
	return s
}

// objects lists all that was made for machines.
func (w *world) objects() string {
	return fmt.Sprint(w.names(&infrav1.LocalMachineList{}), w.names(&bootstrapv1.KubeadmConfigList{}), w.machineNames())
}

func TestCreate(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	step := plan.Step{Verb: plan.Create, Machine: "demo-cp-1", Number: 1, Domain: "a", Init: true}
	first := &observe.Memory{}
	for _, m := range []*observe.Memory{first, {}} { // a repeated step makes nothing twice
		s := w.scene()
		s.Memory = m
		if err := s.Do(context.Background(), step); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(first.Writes.Awaited, func(e observe.Write) bool { return e.Machine == "demo-cp-1" && e.UID == "" }) ||
		!slices.ContainsFunc(first.Writes.Awaited, func(e observe.Write) bool { return e.Machine == "" && e.Version != "" }) {
		t.Errorf("expected is %+v, want the Machine and the number", first.Writes.Awaited)
	}
	if got := w.objects(); got != "[demo-cp-1] [demo-cp-1] [demo-cp-1]" {
		t.Fatalf("made %s", got)
	}
	m := w.machine("demo-cp-1")
	wantInfra := clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "LocalMachine",
		Name: "demo-cp-1"}
	wantConfig := clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "demo-cp-1"}
	if m.Spec.InfrastructureRef != wantInfra || m.Spec.Bootstrap.ConfigRef != wantConfig || m.Spec.FailureDomain != "a" {
		t.Errorf("the Machine refers to %+v and %+v in %q", m.Spec.InfrastructureRef, m.Spec.Bootstrap.ConfigRef, m.Spec.FailureDomain)
	}
	if noted, err := time.Parse(time.RFC3339, m.Annotations[controlplanev1.CreatedAnnotation]); err != nil ||
		time.Since(noted).Abs() > time.Minute {
		t.Errorf("the Machine was created at %s, %v, want about now", noted, err)
	}
	if _, hooked := m.Annotations[machine.Hook]; !hooked || !slices.Equal(m.Finalizers, []string{"machine.cluster.x-k8s.io"}) {
		t.Errorf("one that is deleted at once is gone at once: %v, finalizers %v", m.Annotations, m.Finalizers)
	}
	clone := &infrav1.LocalMachine{}
	if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(m), clone); err != nil {
		t.Fatal(err)
	}
	if clone.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != "demo-machines" ||
		clone.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] != "LocalMachineTemplate.infrastructure.cluster.x-k8s.io" ||
		clone.Labels[clusterv1.ClusterNameLabel] != "demo" || len(clone.OwnerReferences) != 1 || clone.OwnerReferences[0].UID != "kcp-uid" {
		t.Errorf("the clone is %+v", clone.ObjectMeta)
	}
	template := &infrav1.LocalMachineTemplate{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-machines"}, template); err != nil {
		t.Fatal(err)
	}
	if len(template.OwnerReferences) != 1 || template.OwnerReferences[0].UID != "cluster-uid" {
		t.Errorf("the template is owned by %v, want the Cluster", template.OwnerReferences)
	}
}

// TestCreateAfterCrash ends the process after each write of a creation. The next
// one, which knows nothing of it, must finish what was begun.
func TestCreateAfterCrash(t *testing.T) {
	for writes := range 5 {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			w := newWorld(t, testCluster(), testKCP(1))
			w.provide()
			left := writes
			dead := errors.New("the process is dead")
			w.intercept(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
					if left--; left < 0 {
						return dead
					}
					return c.Create(ctx, o, options...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
					if left--; left < 0 {
						return dead
					}
					return c.Patch(ctx, o, p, options...)
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return dead
				},
			})
			if _, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); !errors.Is(err, dead) {
				t.Fatalf("the crash did not happen: %v", err)
			}
			w.use(w.client)
			w.settle()
			// A number that was taken before anything was made is lost, and that is all.
			want := "demo-cp-1"
			if writes == 1 || writes == 2 {
				want = "demo-cp-2"
			}
			if got := w.objects(); got != fmt.Sprintf("[%[1]s] [%[1]s] [%[1]s]", want) {
				t.Errorf("there are %s, want one machine, %s", got, want)
			}
		})
	}
}

// provide lets the certificates and the kubeconfig be there.
func (w *world) provide() {
	w.t.Helper()
	for _, chore := range []string{observe.ChoreCertificates, observe.ChoreKubeconfig} {
		if err := w.scene().Do(context.Background(), plan.Step{Verb: plan.Write, Chore: chore}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestNumbersOnlyGrow: a machine that was begun is finished after later ones were made.
func TestNumbersOnlyGrow(t *testing.T) {
	kcp := testKCP(3)
	kcp.Annotations = map[string]string{controlplanev1.LastMachineAnnotation: "7"}
	w := newWorld(t, testCluster(), kcp)
	if err := w.scene().Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "demo-cp-5", Number: 5}); err != nil {
		t.Fatal(err)
	}
	if got := w.kcp().Annotations[controlplanev1.LastMachineAnnotation]; got != "7" {
		t.Errorf("the last number is %s, want 7", got)
	}
}

func TestCreateOnOldFacts(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	old := w.scene()
	step := plan.Step{Verb: plan.Create, Machine: "demo-cp-1", Number: 1, Init: true}
	if err := w.scene().Do(context.Background(), step); err != nil {
		t.Fatal(err)
	}
	err := old.Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "other-1", Number: 1, Init: true})
	if err == nil || !strings.Contains(err.Error(), "writing annotations of KubeadmControlPlane") {
		t.Errorf("error is %v, want a conflict at the number", err)
	}
	if got := w.objects(); got != "[demo-cp-1] [demo-cp-1] [demo-cp-1]" {
		t.Errorf("made %s", got)
	}
}

// TestBegunMachineOfDeletedGroup: a machine whose number was taken before is not finished when the control plane was deleted meanwhile,
// also where the cache does not show that yet. The garbage collector may have taken the other machines off it, and this one would go with
// it.
func TestBegunMachineOfDeletedGroup(t *testing.T) {
	kcp := testKCP(3)
	kcp.Annotations = map[string]string{controlplanev1.LastMachineAnnotation: "7"}
	w := newWorld(t, testCluster(), kcp)
	old := w.scene()
	if err := w.client.Delete(context.Background(), w.kcp()); err != nil {
		t.Fatal(err)
	}
	err := old.Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "demo-cp-5", Number: 5})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "it is being deleted") {
		t.Errorf("error is %v, want a conflict: the control plane is being deleted", err)
	}
	if got := w.objects(); got != "[] [] []" {
		t.Errorf("made %s", got)
	}
}

func TestCreateUnderTakenName(t *testing.T) {
	taken := []client.Object{
		&infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1"}},
		&bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1"}},
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1"}},
		&infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1",
			DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"x/y"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "demo-cp", UID: "kcp-uid"}}}},
	}
	for i, o := range taken {
		w := newWorld(t, testCluster(), testKCP(3), o)
		err := w.scene().Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "demo-cp-1", Number: 1, Init: true})
		if err == nil || !strings.Contains(err.Error(), "the name is taken") {
			t.Errorf("%d: error is %v, want one that says that the name is taken", i, err)
		}
		if w.settle(); !slices.Contains(w.machineNames(), "demo-cp-2") {
			t.Errorf("%d: machines are %v, want another name to be tried", i, w.machineNames())
		}
	}
}

func TestMissingTemplate(t *testing.T) {
	kcp := testKCP(1)
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "nowhere"
	w := newWorld(t, testCluster(), kcp)
	p := w.settle()
	if p.Reason != "TemplateInvalid" || !strings.Contains(p.Message, `no LocalMachineTemplate "nowhere" in namespace default`) {
		t.Errorf("decided %+v", p)
	}
	if got := w.kcp().Annotations[controlplanev1.LastMachineAnnotation]; got != "" {
		t.Errorf("took the number %s for a machine that cannot be made", got)
	}
	err := w.scene().Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "demo-cp-1", Number: 1})
	if err == nil || w.kcp().Annotations[controlplanev1.LastMachineAnnotation] != "" {
		t.Errorf("error is %v, number %q", err, w.kcp().Annotations[controlplanev1.LastMachineAnnotation])
	}
	// What was missing is looked for in each turn.
	if err := w.client.Create(context.Background(),
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nowhere"}}); err != nil {
		t.Fatal(err)
	}
	if w.settle(); len(w.machineNames()) != 1 {
		t.Errorf("machines are %v once the template is there", w.machineNames())
	}
}

func TestRemoveAndRelease(t *testing.T) {
	w := grown(t, 1)
	ctx, m := context.Background(), w.r.Memories.Of(kcpKey)
	if err := w.scene().Do(ctx, plan.Step{Verb: plan.Delete, Machine: "nobody"}); err == nil {
		t.Error("deleted a Machine that is none of ours")
	}
	s := w.scene()
	for range 2 {
		if err := s.Do(ctx, plan.Step{Verb: plan.Delete, Machine: "demo-cp-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if w.machine("demo-cp-1").DeletionTimestamp.IsZero() {
		t.Fatal("the Machine is not being deleted")
	}
	if !slices.ContainsFunc(m.Writes.Awaited, func(e observe.Write) bool { return e.Deleted && e.UID == s.Machines[0].UID }) {
		t.Errorf("expected is %+v, want the deletion", m.Writes.Awaited)
	}
	for range 2 {
		if err := s.Do(ctx, plan.Step{Verb: plan.ReleaseHook, Machine: "demo-cp-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(m.Writes.Awaited, func(e observe.Write) bool { return e.Released && e.UID == s.Machines[0].UID }) {
		t.Errorf("expected is %+v, want the release", m.Writes.Awaited)
	}
	w.bury()
	if got := w.machineNames(); len(got) != 0 {
		t.Fatalf("machines are %v", got)
	}
	for _, verb := range []plan.Verb{plan.Delete, plan.ReleaseHook} {
		if err := s.Do(ctx, plan.Step{Verb: verb, Machine: "demo-cp-1"}); err != nil {
			t.Errorf("%s of a Machine that is gone: %v", verb, err)
		}
	}
}

// TestDeleteIsOfThatMachine: a Machine of the same name that came later is another
// one. The client in memory ignores preconditions, so the request itself is looked at.
func TestDeleteIsOfThatMachine(t *testing.T) {
	w := grown(t, 1)
	var asked *types.UID
	w.intercept(interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
		given := client.DeleteOptions{}
		given.ApplyOptions(options)
		if given.Preconditions != nil {
			asked = given.Preconditions.UID
		}
		return nil
	}})
	s := w.scene()
	if err := s.Do(context.Background(), plan.Step{Verb: plan.Delete, Machine: "demo-cp-1"}); err != nil {
		t.Fatal(err)
	}
	if asked == nil || *asked != s.Machines[0].UID {
		t.Errorf("deleted whatever has the name: the precondition is %v", asked)
	}
}

func TestChangeMembers(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	if err := w.scene().Do(ctx, plan.Step{Verb: plan.MoveLeader, Member: "2"}); err != nil {
		t.Fatal(err)
	}
	if leader := slices.IndexFunc(w.members, func(m etcd.Member) bool { return m.Leader }); w.members[leader].ID != 2 {
		t.Errorf("member %d leads, want 2", w.members[leader].ID)
	}
	before := w.surveys
	w.scene()
	if w.surveys != before+1 {
		t.Error("what etcd said before the change is still believed")
	}
	if err := w.scene().Do(ctx, plan.Step{Verb: plan.RemoveMember, Member: "3", Machine: "demo-cp-3"}); err != nil || len(w.members) != 2 {
		t.Errorf("error is %v, members %v", err, w.members)
	}
	if w.scene().Left != "demo-cp-3" {
		t.Errorf("the machine whose member left is %q, want demo-cp-3", w.scene().Left)
	}
	w.failChange = errors.New("not now")
	if err := w.scene().Do(ctx, plan.Step{Verb: plan.RemoveMember, Member: "1"}); !errors.Is(err, w.failChange) ||
		!strings.Contains(err.Error(), "removing member 1 from etcd") {
		t.Errorf("error is %v", err)
	}
	if err := w.scene().Do(ctx, plan.Step{Verb: plan.RemoveMember, Member: "not an ID"}); err == nil {
		t.Error("no error for a member ID that is none")
	}
}

// TestConfirm: etcd changes between the decision and the step.
func TestConfirm(t *testing.T) {
	w := grown(t, 3)
	w.scale(1)
	s := w.scene()
	d := s.Decide(context.Background(), of(s.View).Status.Plan)
	for d.Step.Verb != plan.Delete { // the leader hands over first
		if err := s.Do(context.Background(), d.Step); err != nil {
			t.Fatal(err)
		}
		s = w.scene()
		d = s.Decide(context.Background(), of(s.View).Status.Plan)
	}
	same, err := s.Confirm(context.Background(), d)
	if err != nil || same.Step != d.Step {
		t.Fatalf("nothing has changed, and now it is %v, %v", same, err)
	}
	w.members[0].Health = plan.Unhealthy
	w.members[1].Health = plan.Unhealthy
	now, err := s.Confirm(context.Background(), d)
	if err != nil || now.Step.Acts() {
		t.Errorf("the quorum is gone, and the step is still %v, %v", now, err)
	}
}

// TestConfirmedInTurn: a turn asks etcd once more before it takes from the quorum.
func TestConfirmedInTurn(t *testing.T) {
	w := grown(t, 3)
	w.members[0].Leader, w.members[2].Leader = false, true // demo-cp-1, the oldest, goes, and does not lead
	w.scale(1)
	w.forgetEtcd()
	w.surveys = 0
	w.onSurvey = func(before int) {
		if before == 1 {
			w.members[1].Health, w.members[2].Health = plan.Unhealthy, plan.Unhealthy
		}
	}
	w.turn()
	if w.surveys != 2 {
		t.Errorf("asked etcd %d times, want once more before the step: %+v", w.surveys, w.kcp().Status.Plan)
	}
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			t.Errorf("%s is deleted although the quorum is gone", m.Name)
		}
	}
}

// TestSecretsThatWereNotWrittenAreReadAnew: what was read before somebody else wrote them is not believed.
func TestSecretsThatWereNotWrittenAreReadAnew(t *testing.T) {
	w := grown(t, 1)
	w.intercept(interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
		return errors.New("somebody wrote meanwhile")
	}})
	w.turn()
	m := w.r.Memories.Of(kcpKey)
	s := w.scene()
	if m.Secrets.Read.IsZero() {
		t.Fatal("nothing was read before")
	}
	if err := s.Do(context.Background(), plan.Step{Verb: plan.Write, Chore: observe.ChoreKubeconfig}); err == nil {
		t.Fatal("it was written")
	}
	if !m.Secrets.Read.IsZero() {
		t.Error("what was read before is still believed")
	}
}

func TestUnknownStep(t *testing.T) {
	for _, step := range []plan.Step{{Verb: "Dance", Machine: "m1"}, {}} {
		err := fine().Do(context.Background(), step)
		if want := "the step " + step.String() + " is not known"; err == nil || err.Error() != want {
			t.Errorf("%+v: error %v, want %q", step, err, want)
		}
	}
}
