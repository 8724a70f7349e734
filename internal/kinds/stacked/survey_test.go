package stacked

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// slowEtcd takes its time to answer, and then says what the world says.
type slowEtcd struct {
	*world
	takes time.Duration
	// silent: no member answers.
	silent bool
	asked  []time.Time
	// moved is when the leader was moved for the first time.
	moved time.Time
}

func (e *slowEtcd) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return e, nil }

func (e *slowEtcd) Survey(ctx context.Context, targets []etcd.Target) etcd.Survey {
	e.asked = append(e.asked, time.Now())
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return etcd.Survey{Why: ctx.Err().Error()}
	}
	if e.silent {
		return etcd.Survey{Why: "no member returned its list of members"}
	}
	return e.world.Survey(ctx, targets)
}

func (e *slowEtcd) MoveLeader(ctx context.Context, targets []etcd.Target, to uint64) error {
	if e.moved.IsZero() {
		e.moved = time.Now()
	}
	return e.world.MoveLeader(ctx, targets, to)
}

// slowWorld is a grown world whose etcd takes its time from now on, and whose controller is woken by surveys.
func slowWorld(t *testing.T, replicas int) (*world, *slowEtcd) {
	w := grown(t, replicas)
	e := &slowEtcd{world: w, takes: 2 * time.Second}
	w.r.Quorums, w.r.Wakes = e, make(chan event.GenericEvent)
	t.Cleanup(func() { w.r.Forget(kcpKey) })
	return w, e
}

// once takes one turn as a worker does, and reports how long that held the worker.
func (w *world) once() (ctrl.Result, time.Duration) {
	w.t.Helper()
	begun := time.Now()
	result, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
	if err != nil {
		w.t.Fatalf("turn failed: %v", err)
	}
	return result, time.Since(begun)
}

// drive takes turns as the controller's queue would, for that long, and returns how long the worker was held in all.
func (w *world) drive(long time.Duration) (held time.Duration) {
	w.t.Helper()
	end := time.After(long)
	next := time.After(0)
	for {
		select {
		case <-end:
			return held
		case <-w.r.Wakes:
		case <-next:
		}
		result, took := w.once()
		held += took
		next = nil
		if result.RequeueAfter > 0 {
			next = time.After(result.RequeueAfter)
		}
	}
}

// TestSurveyHoldsNoWorker: members that do not answer cost a worker little, and what they are asked for grows rarer.
func TestSurveyHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := slowWorld(t, 3)
		e.silent = true
		w.forgetEtcd()
		if held := w.drive(10 * time.Minute); held > 5*time.Second {
			t.Errorf("the worker was held for %s of 10 minutes", held)
		}
		var pauses []time.Duration
		for i := 1; i < len(e.asked); i++ {
			pauses = append(pauses, e.asked[i].Sub(e.asked[i-1])-e.takes)
		}
		if len(pauses) < 15 || !slices.IsSorted(pauses[:5]) || slices.Max(pauses) > observe.SurveyRetryMax+time.Second ||
			pauses[0] > 2*time.Second {
			t.Errorf("%d surveys, with pauses of %v", len(e.asked), pauses)
		}

		// What is new about the cluster makes it be asked at once, and its answer ends the pauses.
		e.silent, e.asked = false, nil
		w.mu.Lock()
		w.view.Nodes[0].Status.Conditions[0].Status = "False"
		w.mu.Unlock()
		begun := time.Now()
		w.drive(5 * time.Second)
		if len(e.asked) == 0 || e.asked[0].Sub(begun) > 100*time.Millisecond || w.r.Memories.Of(kcpKey).Surveys.Retry() != 0 {
			t.Errorf("asked %v after a change at %s; again after %s", e.asked, begun, w.r.Memories.Of(kcpKey).Surveys.Retry())
		}
	})
}

// TestStepsAwayRestOnANewSurvey: the step waits for a survey that was begun after all else had become as it is.
func TestStepsAwayRestOnANewSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := slowWorld(t, 3)
		w.scale(1)
		// What etcd said last leads to the decision; now it is asked to confirm it.
		w.drive(time.Second)
		if len(e.asked) != 1 || !e.moved.IsZero() {
			t.Fatalf("asked %d times; the leader moved at %s", len(e.asked), e.moved)
		}
		// Meanwhile another fact changes: what etcd will say counts for nothing.
		changed := time.Now()
		worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "worker",
			Labels: map[string]string{clusterv1.ClusterNameLabel: clusterKey.Name}}}
		if err := w.client.Create(t.Context(), worker); err != nil {
			t.Fatal(err)
		}
		w.drive(time.Minute)
		if e.moved.IsZero() {
			t.Fatalf("never moved: %+v", w.kcp().Status.Plan)
		}
		last := time.Time{}
		for _, at := range e.asked {
			if at.Before(e.moved) {
				last = at
			}
		}
		if !last.After(changed) || e.moved.Sub(last) > e.takes+observe.SurveyAge {
			t.Errorf("the leader moved at %s, on a survey of %s; a fact changed at %s", e.moved, last, changed)
		}
	})
}

// TestOneSlowSecretHoldsUpNoOther: the credentials of one cluster's etcd are read without a lock.
func TestOneSlowSecretHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	block := &blockedReader{Reader: w.client, of: "slow", held: make(chan struct{}), release: make(chan struct{})}
	q := observe.NewQuorums(block, "")
	slow := testCluster()
	slow.Name = "slow"
	var ended sync.WaitGroup
	ended.Go(func() {
		if _, err := q.Of(context.Background(), slow); err == nil {
			t.Error("no error without the authority")
		}
	})
	<-block.held
	done := make(chan error, 1)
	go func() {
		_, err := q.Of(context.Background(), testCluster())
		q.Forget(clusterKey)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("another cluster's secret is waited for")
	}
	close(block.release)
	ended.Wait()
}

// blockedReader does not answer for one cluster's secrets before it is released.
type blockedReader struct {
	client.Reader
	of            string
	held, release chan struct{}
	once          sync.Once
}

func (b *blockedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if key.Name == b.of+"-etcd" {
		b.once.Do(func() { close(b.held) })
		<-b.release
	}
	return b.Reader.Get(ctx, key, o, options...)
}

// TestForgottenWhileAsked: what a survey opened for a control plane that is gone is closed.
func TestForgottenWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := slowWorld(t, 1)
		w.forgetEtcd()
		w.once()
		running := w.r.Memories.Of(kcpKey).Surveys.Running()
		if running == nil {
			t.Fatal("no survey runs")
		}
		w.r.Forget(kcpKey)
		<-running
		synctest.Wait()
		if w.forgotten != 3 { // the connection and etcd's, and etcd's once more
			t.Errorf("forgotten %d times", w.forgotten)
		}
	})
}

// TestMissingIsReadRarely: turns in quick succession do not read all secrets again because one is missing, which is for us to make.
func TestMissingIsReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := testCluster()
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} // so that there is no kubeconfig
		w := newWorld(t, cluster, testKCP(1))
		reads := 0
		w.intercept(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				reads++
			}
			return c.Get(ctx, key, o, options...)
		}})
		w.settle()
		settled := reads
		for range 30 {
			w.turn()
			time.Sleep(time.Second + 100*time.Millisecond)
		}
		if again := reads - settled; again == 0 || again > 8 { // one look is 6 to 8 reads
			t.Errorf("%d reads of secrets until the first wait, %d in 30 turns of 33 s", settled, again)
		}
		t.Logf("%d reads of secrets until the first wait", settled)
	})
}

// TestKeysAreMadeByFew: of many control planes that are made at once, few make keys at the same time, and the others wait outside of
// workers.
func TestKeysAreMadeByFew(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	for range act.MostKeyMakers {
		if !w.r.Keys.Begin() {
			t.Fatal("nobody may make keys")
		}
	}
	for range 5 {
		if result := w.turn(); result.RequeueAfter != observe.SoonKeys || len(w.names(&corev1.SecretList{})) > 0 {
			t.Errorf("again after %s, secrets %v", result.RequeueAfter, w.names(&corev1.SecretList{}))
		}
	}
	w.r.Keys.End()
	if w.turn(); len(w.names(&corev1.SecretList{})) == 0 {
		t.Error("no keys were made when it could")
	}
	if !w.r.Keys.Begin() || w.r.Keys.Begin() {
		t.Error("whoever made keys counts as one who still does")
	}
}

// TestLooksOutAtRest: between the surveys of five minutes one member is asked, another after each of them, and what differs is surveyed at
// once: a member that a person added is seen within 35 s of simulated time.
func TestLooksOutAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.drive(11 * time.Minute)
		w.glanced, w.surveys = nil, 0
		w.drive(10 * time.Minute)
		changes := len(slices.Compact(slices.Clone(w.glanced)))
		if n := len(w.glanced); n < 17 || n > 21 || w.surveys > 3 || changes < 2 || changes > 3 {
			t.Errorf("in ten minutes at rest: %d surveys, asked %v between them", w.surveys, w.glanced)
		}

		w.mu.Lock()
		w.members = append(w.members, etcd.Member{ID: 99, Name: "foreign", PeerURLs: []string{"https://10.9.9.9:2380"}, Health: plan.Healthy})
		w.mu.Unlock()
		w.drive(35 * time.Second)
		if p := w.kcp().Status.Plan; len(w.members) > 3 && !strings.Contains(p.Message, "foreign") {
			t.Errorf("35 s after somebody added a member it is there, and not seen: %+v", p)
		}

		w.mu.Lock()
		w.members = w.members[:3]
		w.mu.Unlock()
		w.drive(time.Minute)
		w.r.Forget(kcpKey)
		w.glanced = nil
		time.Sleep(time.Hour)
		if len(w.glanced) > 0 {
			t.Errorf("a group that is forgotten is still looked at: %v", w.glanced)
		}
	})
}
