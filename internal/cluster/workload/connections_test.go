package workload

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var demo = client.ObjectKey{Namespace: "ns", Name: "demo"}

// quick are paces that let tests see in a second what takes a minute.
var quick = Options{Busy: 100 * time.Millisecond, Rest: time.Hour, Silence: 2 * time.Second, Recheck: 200 * time.Millisecond}

func kubeconfigSecret(data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": data}}
}

func setKubeconfig(t *testing.T, c client.Client, data []byte) {
	t.Helper()
	s := &corev1.Secret{}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(kubeconfigSecret(nil)), s))
	s.Data["value"] = data
	must(t, c.Update(t.Context(), s))
}

// connect runs Connections that want demo until the test ends.
func connect(t *testing.T, secrets client.Reader, o Options) *Connections {
	t.Helper()
	c := New(secrets, o)
	c.Want(demo, false)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			must(t, err)
		case <-time.After(5 * time.Second):
			t.Error("it does not end")
		}
	})
	return c
}

// TestOthersAskOverTheSameConnection: who asks for the way to a cluster opens no connection of its own, which client-go would keep for
// ever. Afterwards it has one that works all the same.
func TestOthersAskOverTheSameConnection(t *testing.T) {
	s := newServer(t)
	s.more = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)) // the client tells
	}
	ask := func(c *Connections) {
		t.Helper()
		config := rest.CopyConfig(c.Config(demo))
		config.Timeout = 5 * time.Second
		set, err := kubernetes.NewForConfig(config)
		must(t, err)
		_, err = set.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
	}
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	await(t, c, 5*time.Second, "reachable", reachable)
	ask(c)
	s.mu.Lock()
	from := map[string]bool{}
	for _, r := range s.requests {
		from[r.from] = true
	}
	s.ready = "[-]etcd failed"
	s.mu.Unlock()
	if len(from) != 1 {
		t.Errorf("%d connections, want 1", len(from))
	}
	c.Want(demo, true)
	await(t, c, 5*time.Second, "out of reach", func(v View) bool { return !v.Reachable })
	ask(c)
}

// await waits for a view, and says how long it took.
func await(t *testing.T, c *Connections, within time.Duration, what string, is func(View) bool) (View, time.Duration) {
	t.Helper()
	begun := time.Now()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		v := c.View(demo)
		if is(v) {
			return v, time.Since(begun)
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s; reachable %t, why %q, %s", within, what, v.Reachable, v.Why, names(v))
		case <-tick.C:
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !is(); <-tick.C {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func reachable(v View) bool   { return v.Reachable }
func unreachable(v View) bool { return !v.Reachable }

// names are the Nodes and pods of a view.
func names(v View) string {
	var out []string
	for _, n := range v.Nodes {
		out = append(out, n.Name)
	}
	for _, p := range v.Pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now()}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"large"}}}
	return n
}

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"tier": "control-plane"}}}
	p.Spec = corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", Command: []string{"long"}}}}
	p.Status.Phase = phase
	return p
}

func TestFollowsNodesAndPods(t *testing.T) {
	s := newServer(t)
	s.put(node("b", corev1.ConditionTrue))
	s.put(pod("etcd-b", corev1.PodRunning))
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	first, _ := await(t, c, 10*time.Second, "reachable", reachable)
	if first.Why != "" || time.Since(first.Since) > 3*time.Second || names(first) != "b etcd-b" {
		t.Errorf("why %q, since %s: %s", first.Why, first.Since, names(first))
	}
	if n, p := first.Nodes[0], first.Pods[0]; n.ManagedFields != nil || n.Status.Images != nil || p.ManagedFields != nil ||
		p.Spec.Containers[0].Command != nil || p.Spec.Containers[0].Image != "i" || p.Spec.NodeName != "n" {
		t.Errorf("what nobody looks at is kept, or what is looked at is not: %v %v", n, p)
	}
	s.put(node("a", corev1.ConditionFalse))
	s.put(pod("etcd-b", corev1.PodFailed))
	s.put(pod("etcd-a", corev1.PodPending))
	second, _ := await(t, c, 10*time.Second, "a new Node and Pod", func(v View) bool { return names(v) == "a b etcd-a etcd-b" })
	if second.Pods[1].Status.Phase != corev1.PodFailed || second.Revision <= first.Revision || second.Since != first.Since {
		t.Errorf("etcd-b is %s, revision %d after %d, since %s", second.Pods[1].Status.Phase, second.Revision, first.Revision, second.Since)
	}
	if names(first) != "b etcd-b" || first.Pods[0].Status.Phase != corev1.PodRunning {
		t.Error("an older view changed afterwards")
	}
	s.delete(node("b", corev1.ConditionTrue))
	s.delete(pod("etcd-b", corev1.PodFailed))
	await(t, c, 10*time.Second, "both gone", func(v View) bool { return names(v) == "a etcd-a" })
}

func TestEventsTellWhatMatters(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	// told looks at the view with each event, until it is as it should be.
	told := func(what string, is func(View) bool) View {
		t.Helper()
		limit := time.NewTimer(10 * time.Second)
		defer limit.Stop()
		for {
			select {
			case e := <-c.Events():
				if client.ObjectKeyFromObject(e.Object) != demo {
					t.Errorf("%s: event of %s", what, client.ObjectKeyFromObject(e.Object))
				}
				if v := c.View(demo); is(v) {
					return v
				}
			case <-limit.C:
				t.Fatalf("no event: %s", what)
			}
		}
	}
	before := told("reachable", reachable).Revision
	s.put(node("a", corev1.ConditionTrue)) // a heartbeat
	s.put(node("b", corev1.ConditionTrue)) // and a mark behind it
	if v := told("a new Node", func(v View) bool { return names(v) == "a b" }); v.Revision != before+1 {
		t.Errorf("revision %d after %d: a heartbeat counts as news", v.Revision, before)
	}
	s.delete(node("b", corev1.ConditionTrue))
	told("a Node gone", func(v View) bool { return names(v) == "a" })
	s.setReady("[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed: y\nreadyz check failed")
	c.Want(demo, true)
	if v := told("not reachable", unreachable); v.Why != "not ready: etcd, poststarthook/x" {
		t.Errorf("why %q", v.Why)
	}
}

// TestEventsOfManyChanges: while nobody listens, changes come together, and none is forgotten.
func TestEventsOfManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(fake.NewClientBuilder().Build(), Options{Try: time.Hour})
		c.Want(demo, false)
		go func() { _ = c.Start(ctx) }()
		defer cancel()
		events := func() (n int) {
			for {
				synctest.Wait()
				select {
				case <-c.Events():
					n++
				default:
					return n
				}
			}
		}
		if n := events(); n != 1 {
			t.Errorf("%d events for the news that there is no kubeconfig", n)
		}
		for i := range 50 {
			c.get(demo).book.pods.put(pod(fmt.Sprintf("p%d", i), corev1.PodRunning))
			synctest.Wait()
		}
		// The first is on its way; all others wait behind it as one.
		if n := events(); n != 2 {
			t.Errorf("%d events for 50 changes that nobody listened to", n)
		}
		c.get(demo).book.pods.put(pod("p7", corev1.PodRunning))
		if n := events(); n != 0 {
			t.Errorf("%d events for a pod that is as before", n)
		}
	})
}

// TestRefusedAgainIsNoNews: nothing is open while connections are refused, so that the time between two tries need not pass.
func TestRefusedAgainIsNoNews(t *testing.T) {
	s := newServer(t)
	b := balance(t, s.URL)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reads := &countedReader{Reader: fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, b.url(), "first"))).Build()}
		c := New(reads, quick)
		c.Want(demo, false)
		go func() { _ = c.Start(ctx) }()
		time.Sleep(time.Second) // of the bubble's time
		v := c.View(demo)
		if v.Reachable || v.Why != b.url()+": connection refused" {
			t.Errorf("why %q", v.Why)
		}
		before := reads.n.Load()
		time.Sleep(time.Minute)
		if again := c.View(demo); again.Revision != v.Revision || !again.Since.Equal(v.Since) {
			t.Errorf("the same refusal counted as news %d times", again.Revision-v.Revision)
		}
		if n := reads.n.Load() - before; n < 3 || n > 4 {
			t.Errorf("the secret was read %d times in the first minute, want it 5, 15 and 35 s after the first time: is it still tried?", n)
		}
		before = reads.n.Load()
		time.Sleep(time.Hour)
		if n := reads.n.Load() - before; n < 58 || n > 61 {
			t.Errorf("the secret was read %d times in an hour, want once a minute", n)
		}
	})
}

// countedReader counts what is read.
type countedReader struct {
	client.Reader
	n atomic.Int32
}

func (r *countedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	r.n.Add(1)
	return r.Reader.Get(ctx, key, o, options...)
}

func TestOpensAsSoonAsTheEndpointAnswers(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	b := balance(t, s.URL)
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, b.url(), "first"))).Build(), quick)
	await(t, c, 10*time.Second, "why", func(v View) bool { return strings.Contains(v.Why, "refused") })
	b.up()
	_, took := await(t, c, time.Second, "reachable", reachable)
	t.Logf("complete %s after the endpoint began to answer", took)
}

func TestNoticesThatTheServerIsAway(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	tests := []struct {
		name       string
		busy       bool
		end, again func(*balancer)
		why        string
	}{
		{"refused", false, (*balancer).down, (*balancer).up, "connection refused"},
		{"hung up", false, func(b *balancer) { b.hangUp(true) }, func(b *balancer) { b.hangUp(false) }, ""},
		{"silent", false, (*balancer).hush, (*balancer).speak, "client connection lost"},
		{"silent while busy", true, (*balancer).hush, (*balancer).speak, ""},
		{"not ready", true, func(*balancer) { s.setReady("[+]ping ok\n[-]etcd failed: reason withheld\n[-]shutdown failed: x\n") },
			func(*balancer) { s.setReady("") }, "not ready: etcd, shutdown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := balance(t, s.URL)
			b.up()
			c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, b.url(), "first"))).Build(), quick)
			c.Want(demo, test.busy)
			await(t, c, 10*time.Second, "reachable", reachable)
			test.end(b)
			v, took := await(t, c, 10*time.Second, "unreachable, because of "+test.why, func(v View) bool {
				return !v.Reachable && strings.Contains(v.Why, test.why)
			})
			t.Logf("noticed after %s: %s", took, v.Why)
			if v.Why == "" || names(v) != "a" {
				t.Errorf("why %q; %s", v.Why, names(v))
			}
			test.again(b)
			_, took = await(t, c, 10*time.Second, "reachable again", reachable)
			t.Logf("reachable again after %s", took)
		})
	}
}

func TestWatchesGoOn(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	first, _ := await(t, c, 10*time.Second, "reachable", reachable)

	// A watch that ends is renewed from where it was.
	s.endWatches()
	s.put(node("b", corev1.ConditionTrue))
	v, _ := await(t, c, 10*time.Second, "b", func(v View) bool { return names(v) == "a b" })
	if !v.Reachable || v.Since != first.Since || s.counted()["/readyz"] != 1 {
		t.Errorf("the connection was given up for it: %v", s.counted())
	}

	// Where that is too long ago, everything is listed again.
	s.putUnseen(node("c", corev1.ConditionTrue))
	v, _ = await(t, c, 10*time.Second, "c", func(v View) bool { return names(v) == "a b c" })
	if !v.Reachable || v.Since != first.Since || s.counted()["/readyz"] != 1 {
		t.Errorf("the connection was given up for it: %v", s.counted())
	}

	// What changed while nobody watched is seen afterwards.
	s.setReady("no")
	c.Want(demo, true)
	await(t, c, 10*time.Second, "unreachable", unreachable)
	s.delete(node("a", corev1.ConditionTrue))
	s.setReady("")
	await(t, c, 10*time.Second, "a gone", func(v View) bool { return v.Reachable && names(v) == "b c" })
}

func TestKubeconfig(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	secrets := fake.NewClientBuilder().Build()
	reads := &countedReader{Reader: secrets}
	c := connect(t, reads, quick)
	await(t, c, 10*time.Second, "why", func(v View) bool {
		return v.Why == "there is no kubeconfig: secret ns/demo-kubeconfig does not exist"
	})
	must(t, secrets.Create(t.Context(), kubeconfigSecret([]byte("users: [{user: {token: topsecret}}, {{"))))
	v, _ := await(t, c, 4*time.Second, "why", func(v View) bool {
		return v.Why == "reading the kubeconfig in secret ns/demo-kubeconfig: it cannot be parsed as a kubeconfig"
	})
	if strings.Contains(v.Why, "topsecret") {
		t.Error("a secret in a reason")
	}
	setKubeconfig(t, secrets, s.kubeconfig(t, s.URL, "wrong"))
	await(t, c, 4*time.Second, "why", func(v View) bool { return strings.Contains(v.Why, "does not accept the kubeconfig's credentials") })

	setKubeconfig(t, secrets, s.kubeconfig(t, s.URL, "first"))
	v, _ = await(t, c, wrongBelieved-time.Second, "reachable, without waiting for the next regular look at the secret", reachable)

	// Replaced while it works: with the next thing to do a new connection with it, and nobody notices.
	lists := s.counted()["/api/v1/nodes"]
	setKubeconfig(t, secrets, append([]byte("# renewed\n"), s.kubeconfig(t, s.URL, "first")...))
	c.Want(demo, true)
	eventually(t, "the new kubeconfig is used", func() bool { return s.counted()["/api/v1/nodes"] > lists })
	if now := c.View(demo); now.Since != v.Since || !now.Reachable {
		t.Error("the cluster seemed away while the kubeconfig was replaced")
	}

	// Without its secret a connection that works goes on working.
	must(t, secrets.Delete(t.Context(), kubeconfigSecret(nil)))
	looked := reads.n.Load()
	// What is read next may have begun before; what came of the one after it is known when the third begins.
	eventually(t, "the secret is looked for", func() bool { return reads.n.Load() >= looked+3 })
	if now := c.View(demo); now.Since != v.Since || !now.Reachable {
		t.Error("the secret is gone, and with it the connection")
	}
}

func TestRequestsAtRest(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	o := quick
	// A minute of rest in a second: one probe each half second, as two each minute.
	o.Rest, o.Recheck = 500*time.Millisecond, time.Millisecond
	secrets := fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build()
	reads := &countedReader{Reader: secrets}
	c := connect(t, reads, o)
	await(t, c, 10*time.Second, "reachable", reachable)
	looked := reads.n.Load()
	// gaps waits for so many probes more, and returns what lies between them and the one before.
	gaps := func(more int) (between []time.Duration) {
		t.Helper()
		had := len(s.asked("/readyz"))
		eventually(t, "probes", func() bool { return len(s.asked("/readyz")) >= had+more })
		at := s.asked("/readyz")[had-1 : had+more]
		for i := range more {
			between = append(between, at[i+1].Sub(at[i]))
		}
		return between
	}
	if rest := gaps(2); slices.Min(rest) < o.Rest {
		t.Errorf("at rest a probe came %s after the last, want %s", rest, o.Rest)
	}
	if n := reads.n.Load() - looked; n > 0 {
		t.Errorf("the kubeconfig was read %d times at rest, want none in the first hour", n)
	}
	for path, n := range s.counted() {
		if path != "/readyz" && n > 2 {
			t.Errorf("%d requests for %s, want one list and one watch", n, path)
		}
	}
	c.Want(demo, true)
	// The first may have been on its way; a host that is busy itself may be late with some, not with all.
	if busy := gaps(6)[1:]; slices.Min(busy) < o.Busy || slices.Min(busy) >= o.Rest {
		t.Errorf("while busy probes came %s after the last, want %s", busy, o.Busy)
	}
}

// TestKubeconfigAtRest: a kubeconfig that was replaced is in use some time later, though nothing is done in the cluster.
func TestKubeconfigAtRest(t *testing.T) {
	s := newServer(t)
	secrets := fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build()
	c := connect(t, secrets, Options{Rest: 100 * time.Millisecond, RecheckAtRest: 200 * time.Millisecond})
	await(t, c, 10*time.Second, "reachable", reachable)
	lists := s.counted()["/api/v1/nodes"]
	setKubeconfig(t, secrets, append([]byte("# renewed\n"), s.kubeconfig(t, s.URL, "first")...))
	eventually(t, "the new kubeconfig is used", func() bool { return s.counted()["/api/v1/nodes"] > lists })
}

func TestForget(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	if v := c.View(client.ObjectKey{Name: "other"}); v.Reachable || v.Why == "" {
		t.Errorf("a cluster that nobody wanted: %+v", v)
	}
	await(t, c, 10*time.Second, "reachable", reachable)
	c.Want(demo, true)
	for range 2 {
		c.Forget(demo)
	}
	if v := c.View(demo); v.Reachable || len(v.Nodes) > 0 {
		t.Errorf("forgotten, and still %+v", v)
	}
	ended := make(chan struct{})
	go func() {
		c.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("forgotten, and still asked for")
	}
	c.Want(demo, false)
	await(t, c, 10*time.Second, "wanted again", reachable)
}

func TestOnce(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	s.put(pod("etcd-a", corev1.PodRunning))
	v, err := Once(t.Context(), restConfig(t, s.kubeconfig(t, s.URL, "first")))
	if err != nil || !v.Reachable || v.Why != "" || names(v) != "a etcd-a" {
		t.Errorf("%+v, %v", v, err)
	}
	if n := len(s.counted()); n != 3 || s.counted()["/api/v1/nodes"] != 1 {
		t.Errorf("requests: %v", s.counted())
	}
	v, err = Once(t.Context(), restConfig(t, s.kubeconfig(t, s.URL, "wrong")))
	if err != nil || v.Reachable || !strings.Contains(v.Why, "credentials") {
		t.Errorf("%+v, %v", v, err)
	}
	b := balance(t, s.URL)
	v, err = Once(t.Context(), restConfig(t, s.kubeconfig(t, b.url(), "first")))
	if err != nil || v.Reachable || v.Why != b.url()+": connection refused" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := Once(t.Context(), restConfig(t, s.kubeconfig(t, "https://[", "first"))); err == nil {
		t.Error("an address that is none")
	}
}

// TestServerWithoutReadyz: one that does not know whether it is ready is asked for lists.
func TestServerWithoutReadyz(t *testing.T) {
	s := newServer(t)
	s.put(node("a", corev1.ConditionTrue))
	s.setReady(noReadyz)
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	c.Want(demo, false)
	await(t, c, 10*time.Second, "reachable, with Nodes", func(v View) bool { return v.Reachable && names(v) == "a" })
}
