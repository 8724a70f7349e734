package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/manager"
)

// scene is a Cluster and its control plane, which waits for an approval.
func scene(name string) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: name}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	kcp.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))})
	kcp.Spec.Replicas = ptr.To[int32](3)
	kcp.Status.Plan = controlplanev1.PlanStatus{Step: "Wait", Rule: "roll out", Reason: "ApprovalRequired", Message: "revision 7 of " + name}
	return []client.Object{cluster, kcp}
}

// reading is a client of objects that nothing can be written to, and counts what is listed.
func reading(t *testing.T, lists *atomic.Int32, objects ...client.Object) client.Client {
	t.Helper()
	wrote := func() error { t.Error("something was written"); return errors.New("read only") }
	return fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists.Add(1)
			return w.List(ctx, list, options...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return wrote() },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return wrote() },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return wrote() },
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if tried := (&client.PatchOptions{}).ApplyOptions(options); len(tried.DryRun) == 0 {
				return wrote()
			}
			return trial(ctx, w, o, p)
		},
	}).Build()
}

// trial makes of an object what a merge patch of fields of its spec would, which the client of tests does not tell.
func trial(ctx context.Context, c client.Reader, o client.Object, p client.Patch) error {
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	wanted := struct{ Spec map[string]any }{}
	if err := json.Unmarshal(raw, &wanted); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	for name, value := range wanted.Spec {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, value, "spec", name); err != nil {
			return err
		}
	}
	return nil
}

// until waits for something that is begun elsewhere.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20s", what)
		}
	}
}

// TestLooks: all clusters are there at once, as the management plane says, and are looked at meanwhile. What is shown is what commands say.
func TestLooks(t *testing.T) {
	var lists atomic.Int32
	c := reading(t, &lists, append(scene("one"), scene("two")...)...)
	l := newLooks(t.Context(), c, nil, func(plans []report.Plan) {
		for i := range plans {
			plans[i].NotKnown = "settled"
		}
	})
	rows, err := l.Fleet(t.Context())
	if err != nil || len(rows) != 2 || !rows[0].Looked.IsZero() || rows[0].Etcd.Why != facts.NotLooked {
		t.Fatalf("%+v, %v", rows, err)
	}
	if s := rows[0].Standing(); s.Level != report.Unknown {
		t.Errorf("before a look it is %+v", s)
	}
	until(t, "both are looked at", func() bool {
		rows, err = l.Fleet(t.Context())
		return err == nil && !rows[0].Looked.IsZero() && !rows[1].Looked.IsZero()
	})
	key := client.ObjectKey{Namespace: "default", Name: "one"}
	got, past, at, err := l.Cluster(t.Context(), key)
	if err != nil || got.ControlPlane.Next.Message != "revision 7 of one" || len(past) != 1 || time.Since(at) > time.Minute {
		t.Errorf("one is %+v with %d histories at %s, %v", got, len(past), at, err)
	}
	seen, err := facts.See(t.Context(), c, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "status", got, facts.Describe(facts.WithObserved(t.Context(), c, seen)))
	plans, err := l.Plans(t.Context(), key)
	if err != nil || len(plans) != 1 || plans[0].NotKnown != "settled" {
		t.Errorf("the plans are %+v, %v", plans, err)
	}
	changed, err := l.Planned(t.Context(), key, command.SpecChange{Version: "v9.9"})
	if err != nil || len(changed) != 1 || changed[0].NotKnown != "settled" || !strings.Contains(changed[0].End.Message, `"v9.9"`) {
		t.Errorf("the plans of another version are %+v, %v", changed, err)
	}
	kept := &controlplanev1.KubeadmControlPlane{}
	if err := c.Get(t.Context(), key, kept); err != nil || kept.Spec.Version != "" {
		t.Errorf("a plan wrote spec.version %q, %v", kept.Spec.Version, err)
	}
	explained, err := l.Explain(t.Context(), key, false)
	if err != nil || explained.Reported.Reason != "ApprovalRequired" || len(explained.Verdicts) == 0 {
		t.Errorf("explained is %+v, %v", explained, err)
	}
	if has, err := l.HasEtcd(t.Context(), key); err != nil || has {
		t.Errorf("it has an EtcdCluster: %v, %v", has, err)
	}
	if _, _, _, err := l.Cluster(t.Context(), client.ObjectKey{Namespace: "default", Name: "none"}); !errors.Is(err, facts.ErrNoCluster) {
		t.Errorf("of no cluster: %v", err)
	}
}

// same compares what is printed of two values.
func same(t *testing.T, what string, a, b any) {
	t.Helper()
	one, err := command.Encode("json", a)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := command.Encode("json", b); err != nil || string(one) != string(two) {
		t.Errorf("%s: %s\nand\n%s, %v", what, one, two, err)
	}
}

// TestForget: what is kept of a cluster that is gone is dropped.
func TestForget(t *testing.T) {
	var lists atomic.Int32
	c := reading(t, &lists, append(scene("one"), scene("two")...)...)
	l := newLooks(t.Context(), c, nil, func([]report.Plan) {})
	until(t, "both are looked at", func() bool {
		rows, err := l.Fleet(t.Context())
		return err == nil && !rows[0].Looked.IsZero() && !rows[1].Looked.IsZero()
	})
	l.forget(map[client.ObjectKey]bool{{Namespace: "default", Name: "two"}: true})
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.clusters) != 1 {
		t.Errorf("%d clusters are kept", len(l.clusters))
	}
}

// TestShared: many who ask at the same time cause one reading; one that failed keeps what was read before, with its age.
func TestShared(t *testing.T) {
	var s shared[int]
	var reads atomic.Int32
	release := make(chan struct{})
	slow := func(context.Context) (int, error) {
		<-release
		return int(reads.Add(1)), nil
	}
	answers := make(chan int, 10)
	for range 10 {
		go func() {
			v, _, _ := s.get(t.Context(), t.Context(), time.Hour, slow)
			answers <- v
		}()
	}
	impatient, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	if _, _, err := s.get(impatient, t.Context(), time.Hour, slow); err == nil || err.Error() != "gone" {
		t.Errorf("one who does not wait: %v", err)
	}
	close(release)
	for range 10 {
		if v := <-answers; v != 1 {
			t.Errorf("read %d", v)
		}
	}
	_, at, _ := s.last()
	failed := errors.New("no answer")
	v, then, err := s.get(t.Context(), t.Context(), 0, func(context.Context) (int, error) { return 7, failed })
	if v != 1 || !then.Equal(at) || !errors.Is(err, failed) {
		t.Errorf("after a failure it is %d of %s, %v", v, then, err)
	}
	if s.due(time.Hour) || !s.due(0) {
		t.Error("it is due at the wrong time")
	}
}

// TestLoopback: nobody but this host can reach the pages.
func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:0": true, "127.0.0.1:9090": true, "[::1]:0": true, "127.9.9.9:1": true,
		"0.0.0.0:9090": false, "[::]:0": false, ":9090": false, "localhost:9090": false, "192.168.1.1:80": false, "127.0.0.1": false, "": false,
		"[::ffff:10.0.0.1]:1": false, "127.0.0.1:99999": false,
	} {
		if _, err := loopback(address); (err == nil) != want {
			t.Errorf("%q: %v, want it valid: %v", address, err, want)
		}
	}
}

// TestFlags: commands that pages show name the same management cluster, and a shell reads them as they are meant.
func TestFlags(t *testing.T) {
	for want, i := range map[string]command.Invocation{
		"":                                     {},
		"--context management":                 {Context: "management"},
		"--kubeconfig /a/b.yaml --context a@b": {Kubeconfig: "/a/b.yaml", Context: "a@b"},
		`--context 'a b; rm -rf '\''x'\'''`:    {Context: "a b; rm -rf 'x'"},
		"--context '$(id)'":                    {Context: "$(id)"},
	} {
		if got := (&app{&i}).flags(); got != want {
			t.Errorf("%+v: %s, want %s", i, got, want)
		}
	}
}

// TestNames: the names of the server are its address and localhost, each with its port.
func TestNames(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:9090": "127.0.0.1:9090 localhost:9090", "[::1]:9090": "[::1]:9090 localhost:9090", "127.0.0.1:80": "127.0.0.1 localhost",
	} {
		at, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(names(at), " "); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// TestServeUntil: an interrupt ends the server in good order: answers that have begun are finished.
func TestServeUntil(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	begun := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		_, _ = w.Write([]byte("finished"))
	})
	ended, answered := make(chan error, 1), make(chan string, 1)
	go func() { ended <- serveUntil(ctx, listener, handler) }()
	go func() {
		got, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = got.Body.Close() }()
		text := make([]byte, 8)
		_, _ = got.Body.Read(text)
		answered <- string(text)
	}()
	<-begun
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	if text := <-answered; text != "finished" {
		t.Errorf("the answer that had begun is %q", text)
	}
	if _, err := net.DialTimeout("tcp", listener.Addr().String(), time.Second); err == nil {
		t.Error("it still listens")
	}
}

// TestRedirect: the file by which the browser is opened is this user's alone, and goes.
func TestRedirect(t *testing.T) {
	page, remove, err := redirect("http://127.0.0.1:1/#TOKEN")
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.Stat(page)
	if err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", at, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "url=http://127.0.0.1:1/#TOKEN\"") {
		t.Errorf("%s, %v", text, err)
	}
	remove()
	if _, err := os.Stat(page); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}
