package stacked

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// How long the core controllers, the infrastructure and kubeadm take.
const (
	joinTime  = 3 * time.Second
	initTime  = time.Second
	drainTime = time.Second
	goneTime  = 2 * time.Second
)

// A run takes one control plane through a part of its life, with one write disturbed. Turns
// are taken as the queue of a controller takes them: after a change of what is watched, when
// a turn asked for the next one, and after an error.
type run struct {
	*writer
	// most is how many machines there may be at any time.
	most int
	// hangs is a machine that does not join, until somebody deletes it.
	hangs string
	// lost: there is no quorum until a machine has initialised another cluster.
	lost bool
	// beside plays what works beside the controller in this life only.
	beside func(*run)
	// due says when something outside of the controller happens, by what it is, and awaited
	// what of that still can.
	due     map[string]time.Time
	awaited map[string]bool
	// seen are the versions of the watched objects when the last turn began.
	seen string
	// again is when the next turn is due; zero: only a change brings it about.
	again    time.Time
	failures int
	turns    int
	wrong    []string
}

// saved is a world that others begin with.
type saved struct {
	objects []client.Object
	view    workload.View
	members []etcd.Member
	nextID  uint64
	init    bool
	at      time.Time
}

// everything reads everything in the management cluster but what every world has.
func (w *world) everything() []client.Object {
	w.t.Helper()
	var all []client.Object
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.MachineList{}, &bootstrapv1.KubeadmConfigList{},
		&infrav1.LocalMachineList{}, &corev1.SecretList{}, &clusterv1.MachineHealthCheckList{}, &backupv1alpha1.EtcdRecoveryList{},
		&clusterv1.MachineDeploymentList{},
	} {
		if err := w.client.List(context.Background(), list); err != nil {
			w.t.Fatal(err)
		}
		err := apimeta.EachListItem(list, func(o runtime.Object) error {
			all = append(all, o.(client.Object))
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return all
}

// copyOfObjects returns a client for everything as it is now.
func (w *world) copyOfObjects() client.Client {
	return fake.NewClientBuilder().WithScheme(w.client.Scheme()).WithObjects(w.everything()...).WithInterceptorFuncs(
		interceptor.Funcs{SubResourcePatch: grouptest.StatusPatch}).Build()
}

// save keeps a world for others to begin with.
func (w *world) save() saved {
	return saved{w.everything(), w.view, slices.Clone(w.members), w.nextID, w.init, time.Now()}
}

// world returns a world as it was saved, at that time.
func (s saved) world(t *testing.T) *world {
	t.Helper()
	time.Sleep(time.Until(s.at))
	objects := make([]client.Object, len(s.objects))
	for i, o := range s.objects {
		objects[i] = o.DeepCopyObject().(client.Object)
	}
	w := newWorld(t, objects...)
	w.view, w.members, w.nextID, w.init = s.view, slices.Clone(s.members), s.nextID, s.init
	w.view.Nodes, w.view.Pods = slices.Clone(s.view.Nodes), slices.Clone(s.view.Pods)
	return w
}

// fault notes what must never be.
func (r *run) fault(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf("after %d writes: ", len(r.writes))+fmt.Sprintf(format, args...))
}

// watch checks after each write what must always hold.
func (r *run) watch(w write) {
	if w.verb == "Create" {
		for _, list := range []client.ObjectList{&clusterv1.MachineList{}, &bootstrapv1.KubeadmConfigList{}, &infrav1.LocalMachineList{}} {
			names := slices.DeleteFunc(r.names(list), func(name string) bool { return name == workerName })
			if len(names) > r.most {
				r.fault("%d of %T, at most %d: %v", len(names), list, r.most, names)
			}
		}
	}
	healthy, voters := 0, 0
	for _, m := range r.members {
		if m.Learner {
			continue
		}
		voters++
		if m.Health == plan.Healthy {
			healthy++
		}
	}
	if 2*healthy <= voters && voters > 0 && !r.lost {
		r.fault("%d of %d voters are healthy", healthy, voters)
	}
}

// RemoveMember notes whose member is removed although its machine stays.
func (r *run) RemoveMember(ctx context.Context, targets []etcd.Target, id uint64) error {
	for _, e := range r.members {
		if e.ID != id {
			continue
		}
		for _, m := range r.machines() {
			if m.Name == e.Name && m.DeletionTimestamp.IsZero() {
				r.fault("the member of %s is removed, and the machine stays", m.Name)
			}
		}
	}
	return r.writer.RemoveMember(ctx, targets, id)
}

// Of implements Quorums.
func (r *run) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return r, nil }

// begin starts the controller of a run.
func (r *run) begin() {
	r.start()
	r.r.Quorums = r
	r.again, r.seen, r.failures = time.Now(), "", 0
}

// happen reports whether something is due now, and makes it due later when it is seen first.
func (r *run) happen(what string, after time.Duration) bool {
	r.awaited[what] = true
	at, known := r.due[what]
	if !known {
		at = time.Now().Add(after)
		r.due[what] = at
	}
	if time.Now().Before(at) {
		return false
	}
	delete(r.due, what)
	return true
}

// others plays what works beside the controller: the core controllers, the infrastructure
// and kubeadm. It reports whether Nodes or Pods have changed.
func (r *run) others() bool {
	changed := false
	r.awaited = map[string]bool{}
	defer func() {
		maps.DeleteFunc(r.due, func(what string, _ time.Time) bool { return !r.awaited[what] })
	}()
	if r.beside != nil {
		r.beside(r)
	}
	for _, m := range r.machines() {
		switch {
		case m.Name == workerName:
		case !m.DeletionTimestamp.IsZero():
			r.leave(&m)
		case len(m.Finalizers) == 0:
			r.claim(m.Name)
		case m.Name == r.hangs:
			r.giveUp(&m)
		case !slices.ContainsFunc(r.members, func(e etcd.Member) bool { return e.Name == m.Name }):
			changed = r.arrive(m.Name) || changed
		}
	}
	if len(r.members) > 0 && !r.init && r.happen("kubeadm init ends", initTime) {
		r.init = true
	}
	if r.kcp() == nil {
		r.collect()
	}
	return changed
}

// giveUp lets somebody delete a machine that hangs.
func (r *run) giveUp(m *clusterv1.Machine) {
	if r.happen("given up "+m.Name, joinTime) {
		if err := r.client.Delete(context.Background(), m); err != nil {
			r.t.Fatal(err)
		}
	}
}

// leave brings the deletion of a Machine one step further.
func (r *run) leave(m *clusterv1.Machine) {
	waits := conditions.GetReason(m, clusterv1.MachineDeletingCondition) == clusterv1.MachineDeletingWaitingForPreTerminateHookReason
	switch {
	case machine.HasHook(m) && !waits:
		if r.happen("drained "+m.Name, drainTime) {
			r.terminate(m.Name)
		}
	case !machine.HasHook(m) && r.happen("gone "+m.Name, goneTime):
		if r.lost {
			r.members = slices.DeleteFunc(r.members, func(e etcd.Member) bool { return e.Name == m.Name })
		}
		for i := range r.members {
			if kcp := r.kcp(); r.members[i].Name == m.Name && kcp != nil && kcp.DeletionTimestamp.IsZero() {
				r.fault("%s is gone, and its member is not", m.Name)
				r.members[i].Health = plan.Unhealthy
			}
		}
		r.bury()
	}
}

// arrive lets kubeadm run on a machine, and reports whether it has joined.
func (r *run) arrive(name string) bool {
	config := &bootstrapv1.KubeadmConfig{}
	m := r.machine(name)
	if err := r.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: m.Spec.Bootstrap.ConfigRef.Name},
		config); err != nil {
		r.t.Fatal(err)
	}
	joins := config.Spec.JoinConfiguration.ControlPlane != nil
	if joins && !r.init || !r.happen("joined "+name, joinTime) {
		return false
	}
	if !joins && len(r.members) > 0 {
		r.fault("%s initialises a second cluster", name)
	}
	r.lost = r.lost && joins
	r.appear(name)
	return true
}

// collect removes what belonged to the control plane, which is gone.
func (r *run) collect() {
	for _, o := range r.everything() {
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == "kcp-uid" {
				if err := client.IgnoreNotFound(r.client.Delete(context.Background(), o)); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	}
}

// versions are those of the objects that are watched, as the cache shows them.
func (r *run) versions() string {
	var text strings.Builder
	for _, list := range []client.ObjectList{
		&controlplanev1.KubeadmControlPlaneList{}, &clusterv1.MachineList{}, &clusterv1.MachineHealthCheckList{},
		&backupv1alpha1.EtcdRecoveryList{},
	} {
		if err := r.readFrom(r.client, list).List(context.Background(), list); err != nil {
			r.t.Fatal(err)
		}
		_ = apimeta.EachListItem(list, func(o runtime.Object) error {
			fmt.Fprint(&text, o.(client.Object).GetName(), " ", o.(client.Object).GetResourceVersion(), " ")
			return nil
		})
	}
	return text.String()
}

// take takes one turn, which may be the process's last.
func (r *run) take() {
	r.turns++
	r.staleTurns--
	r.seen = r.versions()
	r.again = time.Time{}
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, errDead) {
				panic(p)
			}
			r.begin()
		}
	}()
	result, err := r.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
	switch {
	case err != nil:
		r.again = time.Now().Add(5 * time.Millisecond << min(r.failures, 12))
		r.failures++
		return
	case result.RequeueAfter > 0:
		r.again = time.Now().Add(result.RequeueAfter)
	}
	r.failures = 0
}

// atRest reports whether nothing is to be expected any more.
func (r *run) atRest() bool {
	if len(r.due) > 0 || r.isStale() {
		return false
	}
	kcp := r.kcp()
	if kcp == nil {
		return len(r.machines()) == 0
	}
	return kcp.Status.ObservedGeneration == kcp.Generation && kcp.Status.Plan.Step == string(plan.Nothing)
}

// toRest takes turns until two in a row at rest have written nothing, or something is wrong.
func (r *run) toRest(most int) {
	quiet := 0
	for len(r.wrong) == 0 {
		r.age()
		changed := r.others()
		if changed || r.versions() != r.seen || !r.again.IsZero() && !time.Now().Before(r.again) {
			before := len(r.writes)
			r.take()
			if quiet++; len(r.writes) > before || !r.atRest() {
				quiet = 0
			}
			if r.turns > most {
				r.fault("%d turns, and no end: %s", r.turns, r.says())
			}
			continue
		}
		if quiet >= 2 || r.kcp() == nil && r.atRest() {
			return
		}
		next := r.next()
		if next.IsZero() {
			r.fault("nothing would bring about another turn: %s", r.says())
			return
		}
		time.Sleep(time.Until(next))
	}
}

// next is when something happens next; zero: never.
func (r *run) next() time.Time {
	first := r.again
	for _, at := range r.due {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if r.isStale() && (first.IsZero() || r.staleUntil.Before(first)) {
		first = r.staleUntil
	}
	return first
}

// says is what the control plane itself says of what it does.
func (r *run) says() string {
	if kcp := r.kcp(); kcp != nil {
		return kcp.Status.Plan.Step + ": " + kcp.Status.Plan.Message
	}
	return "the control plane is gone"
}
