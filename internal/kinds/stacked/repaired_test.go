package stacked

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/group/observe"
)

// judged sets conditions of a Machine, as others do.
func (w *world) judged(name string, all ...metav1.Condition) {
	w.t.Helper()
	m := w.machine(name)
	for _, c := range all {
		conditions.Set(m, c)
	}
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	w.forgetEtcd()
}

// annotated sets an annotation of a Machine, or takes it away.
func (w *world) annotated(name, key string, on bool) {
	w.t.Helper()
	m := w.machine(name)
	if on {
		m.Annotations[key] = ""
	} else {
		delete(m.Annotations, key)
	}
	if err := w.client.Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	w.forgetEtcd()
}

var (
	brokenVerdict = metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
		Reason: "UnhealthyNode", Message: "x"}
	healthyVerdict = metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "Succeeded"}
	handedOver     = metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: "WaitingForRemediation"}
)

// TestRecoveredMachineIsHandedBack: a machine that was handed over, and recovered before anything was
// done, is not deleted when the health check finds it broken again and withholds remediation.
func TestRecoveredMachineIsHandedBack(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	template := &infrav1.LocalMachineTemplate{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "demo-machines"}, template); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(ctx, template); err != nil { // nothing could take its place, so that it stays
		t.Fatal(err)
	}
	w.judged("demo-cp-2", brokenVerdict, handedOver)
	w.settle()
	if !conditions.IsFalse(w.machine("demo-cp-2"), clusterv1.MachineOwnerRemediatedCondition) {
		t.Fatal("OwnerRemediated was taken back from a machine that is broken")
	}
	w.judged("demo-cp-2", healthyVerdict)
	w.settle()
	if c := conditions.Get(w.machine("demo-cp-2"), clusterv1.MachineOwnerRemediatedCondition); c != nil {
		t.Errorf("healthy again, and OwnerRemediated stays: %+v", c)
	}
	template.ResourceVersion = ""
	if err := w.client.Create(ctx, template); err != nil {
		t.Fatal(err)
	}
	w.judged("demo-cp-2", brokenVerdict) // more are broken than the health check allows: it says no more than that
	w.settle()
	if !w.machine("demo-cp-2").DeletionTimestamp.IsZero() {
		t.Error("deleted although the health check withheld remediation")
	}
}

// TestMarkTakenBack: who asked for a repair by annotation may change their mind.
func TestMarkTakenBack(t *testing.T) {
	w := grown(t, 1)
	w.annotated("demo-cp-1", clusterv1.RemediateMachineAnnotation, true)
	w.settle()
	if !conditions.IsFalse(w.machine("demo-cp-1"), clusterv1.MachineOwnerRemediatedCondition) {
		t.Fatal("nothing says what becomes of the mark")
	}
	w.annotated("demo-cp-1", clusterv1.RemediateMachineAnnotation, false)
	w.settle()
	if c := conditions.Get(w.machine("demo-cp-1"), clusterv1.MachineOwnerRemediatedCondition); c != nil {
		t.Errorf("the mark was taken back, and OwnerRemediated stays: %+v", c)
	}
}

// TestMarkOfPersonFirst: of two marked machines, both healthy, the one that a person marked goes first.
func TestMarkOfPersonFirst(t *testing.T) {
	w := grown(t, 3)
	w.judged("demo-cp-1", brokenVerdict, handedOver)
	w.annotated("demo-cp-2", clusterv1.RemediateMachineAnnotation, true)
	w.settle()
	if w.machine("demo-cp-2").DeletionTimestamp.IsZero() || !w.machine("demo-cp-1").DeletionTimestamp.IsZero() {
		t.Error("the machine that a health check marked went first")
	}
}

// TestRepairEnds: the note that a machine was given up goes when its replacement is there, also
// where the write that should have removed it was lost.
func TestRepairEnds(t *testing.T) {
	w := grown(t, 3)
	w.judged("demo-cp-2", brokenVerdict, handedOver)
	w.settle()
	w.terminate("demo-cp-2")
	w.forgetEtcd()
	w.settle()
	w.bury()
	created := false
	w.intercept(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			_, is := o.(*clusterv1.Machine)
			created = created || is
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, is := o.(*controlplanev1.KubeadmControlPlane); is && created {
				created = false
				return apierrors.NewConflict(schema.GroupResource{Resource: "kubeadmcontrolplanes"}, o.GetName(), errors.New("somebody else wrote"))
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	w.forgetEtcd()
	for range 5 {
		if _, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); err != nil {
			t.Fatal(err)
		}
	}
	w.use(w.client)
	w.settle()
	kcp := w.kcp()
	if _, left := kcp.Annotations[upstream.RemediationInProgressAnnotation]; left ||
		!conditions.IsFalse(kcp, upstream.KubeadmControlPlaneRemediatingCondition) {
		t.Errorf("machines %v, and still %q: %+v", w.machineNames(), kcp.Annotations[upstream.RemediationInProgressAnnotation],
			conditions.Get(kcp, upstream.KubeadmControlPlaneRemediatingCondition))
	}
	if kcp.Status.LastRemediation.Machine != "demo-cp-2" {
		t.Errorf("the last remediation is %+v", kcp.Status.LastRemediation)
	}
}

func TestLastRemediation(t *testing.T) {
	older := observe.Replacement{Machine: "m1", Timestamp: metav1.NewTime(time.Unix(1000, 0).UTC())}
	newer := observe.Replacement{Machine: "m2", Timestamp: metav1.NewTime(time.Unix(2000, 0).UTC()), Retries: 1}
	running := observe.Replacement{Machine: "m3", Timestamp: metav1.NewTime(time.Unix(1500, 0).UTC())}
	s := fine()
	if got := s.LastRemediation(); got != nil {
		t.Errorf("none, and told %+v", got)
	}
	s.Machines[0].Annotations = map[string]string{upstream.RemediationForAnnotation: newer.String()}
	s.Machines[1].Annotations = map[string]string{upstream.RemediationForAnnotation: older.String()}
	s.Machines[2].Annotations = map[string]string{upstream.RemediationForAnnotation: "{"}
	if got := s.LastRemediation(); got == nil || got.String() != newer.String() {
		t.Errorf("the newest on the machines is %v, told %v", newer, got)
	}
	of(s.View).Annotations = map[string]string{upstream.RemediationInProgressAnnotation: running.String()}
	if got := s.LastRemediation(); got == nil || got.String() != running.String() {
		t.Errorf("in progress is %v, told %v", running, got)
	}
}

// TestOwnerRemediatedReasons: the words are upstream's, so that alerts on them go on working.
func TestOwnerRemediatedReasons(t *testing.T) {
	w := grown(t, 1)
	w.annotated("demo-cp-1", clusterv1.RemediateMachineAnnotation, true)
	w.view.Nodes[0].Status.Conditions[0].Status = corev1.ConditionTrue
	w.settle()
	if got := conditions.GetReason(w.machine("demo-cp-1"),
		clusterv1.MachineOwnerRemediatedCondition); got != upstream.KubeadmControlPlaneMachineCannotBeRemediatedReason {
		t.Errorf("of the only machine there is it says %s", got)
	}
}
