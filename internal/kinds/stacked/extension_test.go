package stacked

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/upgrade/updatehooks"
)

// A metal is a Runtime Extension of somebody else, behind real TLS: it changes the version of machines and the memory of local ones, and
// nothing else.
type metal struct {
	mu sync.Mutex
	// asked are the names of the machines that it was asked about. can is what it says, by how often it was asked about the same machine
	// before; nil: it can.
	asked []string
	can   func(asked int) bool
	// status is what it answers with; 0: 200.
	status int
	// during is called while it is asked; nil: nothing happens.
	during func()
}

// requestOfKCP asks for a turn.
var requestOfKCP = ctrl.Request{NamespacedName: kcpKey}

// merge is a patch of a spec.
func merge(spec map[string]any) runtimehooksv1.Patch {
	data, _ := json.Marshal(map[string]any{"spec": spec})
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: data}
}

func (m *metal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := &runtimehooksv1.CanUpdateMachineRequest{}
	if !strings.HasSuffix(r.URL.Path, "/canupdatemachine/can-update") || json.NewDecoder(r.Body).Decode(request) != nil || m.status != 0 {
		http.Error(w, "out of order", max(m.status, http.StatusNotFound))
		return
	}
	if m.during != nil {
		m.during()
	}
	name, before := request.Desired.Machine.Name, 0
	for _, asked := range m.asked {
		if asked == name {
			before++
		}
	}
	can := m.can == nil || m.can(before)
	m.asked = append(m.asked, name)
	response := &runtimehooksv1.CanUpdateMachineResponse{}
	response.Status = runtimehooksv1.ResponseStatusSuccess
	if can {
		infra := &infrav1.LocalMachine{}
		if err := json.Unmarshal(request.Desired.InfrastructureMachine.Raw, infra); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response.MachinePatch = merge(map[string]any{"version": request.Desired.Machine.Spec.Version})
		response.InfrastructureMachinePatch = merge(map[string]any{"resources": map[string]any{"memory": infra.Spec.Resources.Memory}})
	}
	_ = json.NewEncoder(w).Encode(response)
}

// set changes what the extension does.
func (m *metal) set(f func(*metal)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// registerExtension registers an extension under a name, as Cluster API discovers it.
func (w *world) registerExtension(name string, m *metal) *httptest.Server {
	w.t.Helper()
	s := httptest.NewTLSServer(m)
	w.t.Cleanup(s.Close)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: s.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	for handler, hook := range map[string]string{"can-update": "CanUpdateMachine", "update": "UpdateMachine"} {
		config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
			Name: handler + "." + name, RequestHook: runtimev1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: hook},
			TimeoutSeconds: 5, FailurePolicy: runtimev1.FailurePolicyIgnore,
		})
	}
	if err := w.client.Create(context.Background(), config); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// metalWorld is a control plane at rest, another template, and an extension that is registered.
func metalWorld(t *testing.T, replicas int) (*world, *metal) {
	t.Helper()
	w := grown(t, replicas)
	big := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "big-machines"}}
	big.Spec.Template.Spec.Resources.Memory = ptr.To(resource.MustParse("2Gi"))
	if err := w.client.Create(context.Background(), big); err != nil {
		t.Fatal(err)
	}
	m := &metal{}
	w.registerExtension("metal", m)
	return w, m
}

// wantBig wants other machines, changed by an extension.
func wantBig(policy controlplanev1.InPlacePolicy) func(*controlplanev1.KubeadmControlPlane) {
	return func(kcp *controlplanev1.KubeadmControlPlane) {
		inPlacePolicy(policy)(kcp)
		kcp.Spec.InPlace.Updater = controlplanev1.UpdaterExtension
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "big-machines"
	}
}

// stepTo takes steps until this is the reason: an extension answers in the background.
func (w *world) stepTo(reason string) controlplanev1.PlanStatus {
	w.t.Helper()
	var p controlplanev1.PlanStatus
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if p = w.step(); p.Reason == reason {
			return p
		}
	}
	w.t.Fatalf("%s does not come: %+v", reason, p)
	return p
}

// partsOfMachine reads what a machine consists of.
func (w *world) partsOfMachine(name string) (*clusterv1.Machine, *bootstrapv1.KubeadmConfig, *infrav1.LocalMachine) {
	w.t.Helper()
	m, config, infra := &clusterv1.Machine{}, &bootstrapv1.KubeadmConfig{}, &infrav1.LocalMachine{}
	for _, o := range []client.Object{m, config, infra} {
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
			w.t.Fatal(err)
		}
	}
	return m, config, infra
}

// isBig: a machine has what the other template says.
func isBig(infra *infrav1.LocalMachine) bool {
	return infra.Spec.Resources.Memory != nil && infra.Spec.Resources.Memory.String() == "2Gi"
}

// markedMachines are those that are begun in full.
func (w *world) markedMachines() []string {
	var names []string
	for _, m := range w.machines() {
		if updatehooks.IsPending(&m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// reports has Cluster API's Machine controller report an update.
func (w *world) reports(name, reason, message string) {
	w.t.Helper()
	m := w.machine(name)
	status := metav1.ConditionTrue
	if reason == clusterv1.MachineNotUpdatingReason {
		status = metav1.ConditionFalse
	}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: status, Reason: reason, Message: message})
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
}

// finishes has Cluster API's Machine controller end an update: it takes the marks off in its order, and is looked at in between.
func (w *world) finishes(name string) {
	w.t.Helper()
	w.reports(name, clusterv1.MachineInPlaceUpdatingReason, "In-place update in progress: rebooting")
	m, config, infra := w.partsOfMachine(name)
	for _, o := range []client.Object{m, infra, config} {
		if !updatehooks.IsMarked(o) {
			w.t.Errorf("%T %s is not marked: %v", o, name, o.GetAnnotations())
		}
		annotations := o.GetAnnotations()
		delete(annotations, clusterv1.UpdateInProgressAnnotation)
		o.SetAnnotations(annotations)
		if err := w.client.Update(context.Background(), o); err != nil {
			w.t.Fatal(err)
		}
		if p := w.step(); p.Reason != "UpdatingInPlace" {
			w.t.Errorf("%+v", p)
		}
	}
	m = w.machine(name)
	delete(m.Annotations, runtimev1.PendingHooksAnnotation)
	if err := w.client.Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	if p := w.step(); p.Reason != "UpdatingInPlace" {
		w.t.Errorf("the condition is not waited for: %+v", p)
	}
	w.reports(name, clusterv1.MachineNotUpdatingReason, "")
}

// TestExtension: another's extension updates all that is wanted of three machines, one after the other, the leader's last, and none is
// replaced.
func TestExtension(t *testing.T) {
	w, extension := metalWorld(t, 3)
	before := w.machineNames()
	w.change(wantBig(controlplanev1.InPlaceOnly))
	var order []string
	for range 3 {
		p := w.stepTo("UpdatingInPlace")
		marked := w.markedMachines()
		if len(marked) != 1 || !strings.Contains(p.Message, "Cluster API has not called the Runtime Extension yet") {
			t.Fatalf("%v: %+v", marked, p)
		}
		order = append(order, marked[0])
		m, _, infra := w.partsOfMachine(marked[0])
		if m.Spec.Version != "v1.37.0" || !isBig(infra) || infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation] != "big-machines" {
			t.Errorf("%s, %+v, %v", m.Spec.Version, infra.Spec, infra.Annotations)
		}
		w.reports(marked[0], clusterv1.MachineInPlaceUpdateFailedReason, "UpdateMachine hook failed: no power")
		if p := w.step(); p.Reason != "UpdatingInPlace" || !strings.Contains(p.Message, "no power") {
			t.Errorf("%+v", p)
		}
		w.finishes(marked[0])
	}
	w.stepTo("AsWanted")
	if !slices.Equal(w.machineNames(), before) || strings.Join(order, " ") != "demo-cp-2 demo-cp-3 demo-cp-1" {
		t.Errorf("order %v, machines %v", order, w.machineNames())
	}
	for _, m := range w.machines() {
		if _, noted := updatehooks.GoalOf(&m); noted || updatehooks.IsMarked(&m) || !conditions.IsTrue(&m, clusterv1.MachineUpToDateCondition) {
			t.Errorf("%s: %v %+v", m.Name, m.Annotations, m.Status.Conditions)
		}
	}
	if len(w.upgrades()) != 0 || len(w.groupUpgrades()) != 0 {
		t.Error("there are NodeUpgrades")
	}
	extension.set(func(m *metal) {
		if len(m.asked) < 6 {
			t.Errorf("it was asked about %v: once to know and once more to begin is needed", m.asked)
		}
	})
}

// TestExtensionCut: a beginning that is cut off after any of its writes is made whole by the next process, once.
func TestExtensionCut(t *testing.T) {
	var whole int
	for cut := 1; ; cut++ {
		w, _ := metalWorld(t, 1)
		writes := 0
		broken := errors.New("cut off")
		w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			of := (&client.PatchOptions{}).ApplyOptions(options)
			data, _ := patch.Data(o)
			if len(of.DryRun) > 0 || !strings.Contains(string(data), "update-in-progress") && !strings.Contains(string(data), "pending-hooks") {
				return c.Patch(ctx, o, patch, options...)
			}
			if writes++; writes >= cut {
				return broken
			}
			return c.Patch(ctx, o, patch, options...)
		}})
		w.change(wantBig(controlplanev1.InPlaceOnly))
		ended := false
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !ended && len(w.markedMachines()) == 0; {
			w.forgetEtcd()
			_, err := w.r.Reconcile(context.Background(), requestOfKCP)
			ended = errors.Is(err, broken)
		}
		if !ended {
			whole = cut - 1
			break
		}
		m, config, infra := w.partsOfMachine("demo-cp-1")
		if cut > 1 && !updatehooks.IsMarked(m) || cut > 2 && !updatehooks.IsMarked(infra) || cut > 3 && !updatehooks.IsMarked(config) ||
			updatehooks.IsPending(m) {
			t.Fatalf("cut %d: the order of the writes is another", cut)
		}
		w.use(w.client)
		w.stepTo("UpdatingInPlace")
		m, _, infra = w.partsOfMachine("demo-cp-1")
		if !updatehooks.IsPending(m) || m.Spec.Version != "v1.37.0" || !isBig(infra) {
			t.Fatalf("cut %d: %v, %s, %+v", cut, m.Annotations, m.Spec.Version, infra.Spec)
		}
		w.finishes("demo-cp-1")
		w.stepTo("AsWanted")
	}
	if whole != 4 {
		t.Errorf("%d writes, want 4: Machine, infrastructure, KubeadmConfig, Machine", whole)
	}
}

// TestExtensionOtherGoal: where something else is wanted before a beginning is whole, only what was written is carried out, and the rest
// comes after.
func TestExtensionOtherGoal(t *testing.T) {
	w, _ := metalWorld(t, 1)
	w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
		options ...client.PatchOption) error {
		if data, _ := patch.Data(o); o.GetObjectKind().GroupVersionKind().Kind == "LocalMachine" &&
			strings.Contains(string(data), "update-in-progress") {
			return errors.New("cut off")
		}
		return c.Patch(ctx, o, patch, options...)
	}})
	w.change(wantBig(controlplanev1.InPlaceOnly))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !updatehooks.IsMarked(w.machine("demo-cp-1")); {
		w.forgetEtcd()
		_, _ = w.r.Reconcile(context.Background(), requestOfKCP)
	}
	w.use(w.client)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.37.1" })
	w.stepTo("UpdatingInPlace")
	m, _, infra := w.partsOfMachine("demo-cp-1")
	if !updatehooks.IsPending(m) || m.Spec.Version != "v1.36.3" || isBig(infra) {
		t.Fatalf("what nobody wants any more is begun: %v, %s, %+v", m.Annotations, m.Spec.Version, infra.Spec)
	}
	w.finishes("demo-cp-1")
	w.stepTo("UpdatingInPlace")
	if m, _, infra = w.partsOfMachine("demo-cp-1"); m.Spec.Version != "v1.37.1" || !isBig(infra) {
		t.Errorf("%s, %+v", m.Spec.Version, infra.Spec)
	}
}

// TestExtensionCannot: what an extension does not change is named; with the policy Only nothing is replaced, with Preferred the machine is.
func TestExtensionCannot(t *testing.T) {
	w, extension := metalWorld(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		wantBig(controlplanev1.InPlaceOnly)(kcp)
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
	})
	p := w.stepTo("CannotUpdateInPlace")
	if !strings.Contains(p.Message,
		"Runtime Extension can-update.metal does not change spec.kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs") ||
		len(w.markedMachines()) != 0 {
		t.Errorf("%+v", p)
	}
	extension.set(func(m *metal) { m.can = func(int) bool { return false } })
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = nil
		kcp.Spec.Version = "v1.36.3"
	})
	for p = w.stepTo("CannotUpdateInPlace"); !strings.Contains(p.Message, "LocalMachine spec.resources"); p = w.step() {
		if strings.Contains(p.Message, "demo-cp-1") && strings.Contains(p.Message, "big-machines") && !strings.Contains(p.Message, "extraArgs") {
			t.Fatalf("%+v", p)
		}
	}
	w.change(wantBig(controlplanev1.InPlacePreferred))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && len(w.machineNames()) < 2; {
		w.step()
	}
	if w.liveUntil("AsWanted"); slices.Contains(w.machineNames(), "demo-cp-1") {
		t.Errorf("%v", w.machineNames())
	}
}

// TestExtensionSilent: while nobody reports whether a machine can be updated in place nothing is updated or replaced, and the reason is
// told.
func TestExtensionSilent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *metal)
		says   string
	}{
		"fails": {func(_ *world, m *metal) { m.set(func(m *metal) { m.status = http.StatusInternalServerError }) }, "500"},
		"two": {func(w *world, _ *metal) { w.registerExtension("other", &metal{}) },
			"can-update.metal and can-update.other serve the hook CanUpdateMachine in namespace default"},
		"none": {func(w *world, _ *metal) { w.unregister("metal") },
			"no Runtime Extension that Cluster API has discovered serves the hook CanUpdateMachine"},
		"quorate's": {func(w *world, _ *metal) { w.unregister("metal"); w.registerExtension("quorate", &metal{}) },
			"spec.inPlace.updater must be Quorate"},
		"unreachable": {func(w *world, _ *metal) { w.unregister("metal"); w.registerExtension("gone", &metal{}).Close() }, "dial tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			w, extension := metalWorld(t, 1)
			c.change(w, extension)
			w.change(wantBig(controlplanev1.InPlacePreferred))
			p := w.stepTo("UpdaterUnanswered")
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && strings.Contains(p.Message, "is being asked"); {
				p = w.stepTo("UpdaterUnanswered")
			}
			if !strings.Contains(p.Message, c.says) || len(w.machineNames()) != 1 || len(w.markedMachines()) != 0 || len(w.upgrades()) != 0 {
				t.Errorf("%+v, %v", p, w.machineNames())
			}
		})
	}
}

// TestExtensionAskedAnew: an extension that has said yes is asked again when the machine's turn comes, and so is one that has said no
// before a machine goes. What it prevents does not count as a replacement.
func TestExtensionAskedAnew(t *testing.T) {
	w, extension := metalWorld(t, 1)
	w.r.Slots = observe.NewSlots(1)
	extension.set(func(m *metal) {
		m.can = func(asked int) bool {
			if asked > 0 && len(w.r.Slots) != 0 {
				t.Error("the turn that waits for the extension has its slot still")
			}
			return asked == 0
		}
	})
	w.limit(1)
	w.change(wantBig(controlplanev1.InPlaceOnly))
	if w.stepUntilRefused("CannotUpdateInPlace"); updatehooks.IsMarked(w.machine("demo-cp-1")) || w.replacements() != "" {
		t.Errorf("it is updated although the extension says no by now, or counts: %q", w.replacements())
	}

	w, extension = metalWorld(t, 3)
	extension.set(func(m *metal) { m.can = func(asked int) bool { return asked > 0 } })
	w.limit(1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		wantBig(controlplanev1.InPlacePreferred)(kcp)
		kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
	})
	w.stepUntilRefused("UpdatingInPlace")
	w.stepTo("UpdatingInPlace")
	if marked := w.markedMachines(); len(marked) != 1 || !strings.HasPrefix(w.replacements(), marked[0]+"=") ||
		strings.Contains(w.replacements(), ",") {
		t.Errorf("%v are updated, and %q is noted", marked, w.replacements())
	}
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			t.Errorf("%s goes although the extension says by now that it can be changed", m.Name)
		}
	}
}

// stepUntilRefused takes turns, of which one may end with a conflict, until one of these is the reason.
func (w *world) stepUntilRefused(reasons ...string) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		w.forgetEtcd()
		if _, err := w.r.Reconcile(context.Background(), requestOfKCP); err != nil {
			w.t.Log(err)
		}
		if slices.Contains(reasons, w.kcp().Status.Plan.Reason) {
			return
		}
	}
	w.t.Fatalf("%v do not come: %+v", reasons, w.kcp().Status.Plan)
}

// unregister takes an extension away.
func (w *world) unregister(name string) {
	w.t.Helper()
	if err := w.client.Delete(context.Background(), &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestExtensionOnce: who looks once, as the command line does, asks by itself and names what an extension does not change.
func TestExtensionOnce(t *testing.T) {
	w, extension := metalWorld(t, 1)
	extension.set(func(m *metal) { m.can = func(int) bool { return false } })
	m := w.machine("demo-cp-1")
	m.Status.NodeRef.Name = "demo-cp-1"
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w.change(wantBig(controlplanev1.InPlaceOnly))
	o, err := observe.Once(context.Background(), w.client, New(), kcpKey)
	if err != nil {
		t.Fatal(err)
	}
	if m := o.Machines[0]; !strings.Contains(m.NeedsReplacement, "can-update.metal does not change") || m.Unanswered != "" {
		t.Errorf("%+v", m)
	}
	extension.set(func(m *metal) { m.status = http.StatusTeapot })
	if o, err = observe.Once(context.Background(), w.client, New(), kcpKey); err != nil || !strings.Contains(o.Machines[0].Unanswered, "418") {
		t.Errorf("%v, %+v", err, o.Machines[0])
	}
}

// TestExtensionRefused: what the API server would not store of an infrastructure machine cannot be changed in place, and no extension is
// asked.
func TestExtensionRefused(t *testing.T) {
	w, extension := metalWorld(t, 1)
	w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
		options ...client.PatchOption) error {
		if of := (&client.PatchOptions{}).ApplyOptions(options); len(of.DryRun) > 0 {
			return apierrors.NewInvalid(o.GetObjectKind().GroupVersionKind().GroupKind(), o.GetName(),
				field.ErrorList{field.Forbidden(field.NewPath("spec", "resources"), "it is immutable")})
		}
		return c.Patch(ctx, o, patch, options...)
	}})
	w.change(wantBig(controlplanev1.InPlaceOnly))
	if p := w.stepTo("CannotUpdateInPlace"); !strings.Contains(p.Message, "the API server refuses what is wanted of LocalMachine demo-cp-1") ||
		len(w.markedMachines()) != 0 {
		t.Errorf("%+v", p)
	}
	extension.set(func(m *metal) {
		if len(m.asked) > 0 {
			t.Errorf("it was asked about %v", m.asked)
		}
	})
}

// TestExtensionGone: a machine whose template is gone cannot follow another, and a deadline needs another machine: no extension is asked
// about these.
func TestExtensionGone(t *testing.T) {
	w, extension := metalWorld(t, 1)
	if err := w.client.Delete(context.Background(),
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-machines"}}); err != nil {
		t.Fatal(err)
	}
	w.change(wantBig(controlplanev1.InPlaceOnly))
	if p := w.stepTo("CannotUpdateInPlace"); !strings.Contains(p.Message,
		"infrastructureRef.name: demo-machines, wanted big-machines (no Runtime Extension is asked about that)") {
		t.Errorf("%+v", p)
	}
	extension.set(func(m *metal) {
		if len(m.asked) > 0 {
			t.Errorf("it was asked about %v", m.asked)
		}
	})
}

// TestExtensionNotWanted: without the opt-in an extension that is registered is not asked, and machines are updated by Quorate.
func TestExtensionNotWanted(t *testing.T) {
	w, extension := metalWorld(t, 1)
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	w.step()
	w.underway()
	extension.set(func(m *metal) {
		if len(m.asked) > 0 {
			t.Errorf("it was asked about %v", m.asked)
		}
	})
}

// TestExtensionEndsAnyway: who changes the spec back to Quorate, or to no updates in place, has begun an update all the same: it is
// followed to its end.
func TestExtensionEndsAnyway(t *testing.T) {
	w, _ := metalWorld(t, 1)
	w.change(wantBig(controlplanev1.InPlaceOnly))
	w.stepTo("UpdatingInPlace")
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.InPlace = controlplanev1.InPlaceSpec{} })
	w.stepTo("UpdatingInPlace")
	w.finishes("demo-cp-1")
	w.stepTo("AsWanted")
	if _, noted := updatehooks.GoalOf(w.machine("demo-cp-1")); noted {
		t.Error("the update is not seen to")
	}
}

// TestUpdaterAfterFailure: who has an extension update machines after Quorate's update of one has failed need not see to that first.
func TestUpdaterAfterFailure(t *testing.T) {
	w, _ := metalWorld(t, 1)
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	w.step()
	w.endUpgrade(w.underway(), upgradev1.Failed)
	if p := w.step(); p.Reason != "UpdateFailed" {
		t.Fatalf("%+v", p)
	}
	w.change(wantBig(controlplanev1.InPlaceOnly))
	w.stepTo("UpdatingInPlace")
	if len(w.upgrades()) != 0 || len(w.markedMachines()) != 1 {
		t.Errorf("%d NodeUpgrades, the extension updates %v", len(w.upgrades()), w.markedMachines())
	}
}

// TestUpdaterSwitched: who has an extension update machines while Quorate does has begun an update all the same: it ends first, and the
// extension does the rest.
func TestUpdaterSwitched(t *testing.T) {
	w, _ := metalWorld(t, 3)
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	w.step()
	u := w.underway()
	w.change(wantBig(controlplanev1.InPlaceOnly))
	for range 3 {
		if p := w.stepTo("UpdatingInPlace"); len(w.markedMachines()) != 0 || len(w.upgrades()) != 1 {
			t.Fatalf("%v are begun by the extension, and %d NodeUpgrades: %+v", w.markedMachines(), len(w.upgrades()), p)
		}
	}
	w.endUpgrade(u, upgradev1.Done)
	for range 3 {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && len(w.markedMachines()) == 0; {
			w.step()
		}
		marked := w.markedMachines()
		if len(marked) != 1 || len(w.upgrades()) != 0 {
			t.Fatalf("%v are begun by the extension, and %d NodeUpgrades: %+v", marked, len(w.upgrades()), w.kcp().Status.Plan)
		}
		w.finishes(marked[0])
	}
	w.stepTo("AsWanted")
	for _, m := range w.machines() {
		if _, _, infra := w.partsOfMachine(m.Name); m.Spec.Version != "v1.37.0" || !isBig(infra) {
			t.Errorf("%s: %s %+v", m.Name, m.Spec.Version, infra.Spec)
		}
	}
}

// TestUpdatersDoNotMeet: whoever finds no update in its cache, which is old, begins none beside one that the API server knows.
func TestUpdatersDoNotMeet(t *testing.T) {
	t.Run("Quorate beside an extension", func(t *testing.T) {
		w, _ := metalWorld(t, 3)
		w.change(wantBig(controlplanev1.InPlaceOnly))
		w.stepTo("UpdatingInPlace")
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.InPlace.Updater = "" })
		w.cached(func(list client.ObjectList) {
			if machines, ok := list.(*clusterv1.MachineList); ok {
				for i := range machines.Items {
					m := &machines.Items[i]
					if updatehooks.IsMarked(m) {
						delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
						delete(m.Annotations, runtimev1.PendingHooksAnnotation)
						delete(m.Annotations, updatehooks.GoalAnnotation)
						m.Spec.Version = "v1.36.3"
					}
				}
			}
		})
		w.isRefused(func() bool { return len(w.upgrades()) == 0 && len(w.markedMachines()) == 1 })
	})
	t.Run("an extension beside Quorate", func(t *testing.T) {
		w, _ := metalWorld(t, 1)
		w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
		w.step()
		w.underway()
		w.change(wantBig(controlplanev1.InPlaceOnly))
		w.cached(func(list client.ObjectList) {
			if upgrades, ok := list.(*upgradev1.NodeUpgradeList); ok {
				upgrades.Items = nil
			}
		})
		w.isRefused(func() bool { return len(w.upgrades()) == 1 && len(w.markedMachines()) == 0 })
	})
}

// cached begins a process whose cache is old: lists pass through a function, but for those that are read from the API server.
func (w *world) cached(old func(client.ObjectList)) {
	w.intercept(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
		options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		old(list)
		return err
	}})
	w.r.APIReader = w.client
}

// isRefused takes turns until one meets a conflict, after which nothing is told, and checks that nothing was begun.
func (w *world) isRefused(asBefore func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		result, err := w.r.Reconcile(context.Background(), requestOfKCP)
		surveying := w.r.Memories.Of(kcpKey).Surveys.Running()
		switch {
		case err != nil || !asBefore():
			w.t.Fatalf("it is not as it was before, or a turn failed: %v", err)
		case surveying != nil:
			<-surveying
		case result.RequeueAfter == observe.SoonAfterConflict:
			return
		}
	}
	w.t.Fatalf("no turn was refused: %+v", w.kcp().Status.Plan)
}
