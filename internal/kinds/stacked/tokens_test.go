package stacked

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// giveToken gives a machine the bootstrap token with which it joins.
func (w *world) giveToken(name, token string) {
	w.t.Helper()
	config := w.kubeadmConfigOf(name)
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = token
	if err := w.client.Update(context.Background(), config); err != nil {
		w.t.Fatal(err)
	}
}

// register notes the Node of a machine, as the core controllers do.
func (w *world) register(name string) {
	w.t.Helper()
	m := w.machine(name)
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
	if err := w.client.Status().Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
}

// TestTokensAreDropped: the token of a machine goes when that has joined, once, and nobody else's.
func TestTokensAreDropped(t *testing.T) {
	w := grown(t, 3)
	w.giveToken("demo-cp-2", "aaaaaa.0123456789abcdef")
	w.giveToken("demo-cp-3", "bbbbbb.0123456789abcdef")
	w.settle()
	if len(w.dropped) > 0 {
		t.Fatalf("before anybody has joined, tokens are gone: %v", w.dropped)
	}
	watch := &slotWatch{w, map[string]int{}}
	w.r.Slots, w.r.Kubeadm = observe.NewSlots(1), watch
	w.register("demo-cp-2")
	w.settle()
	w.settle()
	if watch.asked["DropTokens"] == 0 {
		t.Error("no token was asked for")
	}
	if want := []string{"aaaaaa"}; !slices.Equal(w.dropped, want) {
		t.Errorf("tokens gone are %v, want %v", w.dropped, want)
	}
	w.register("demo-cp-3")
	w.settle()
	slices.Sort(w.dropped)
	if want := []string{"aaaaaa", "aaaaaa", "bbbbbb"}; !slices.Equal(w.dropped, want) {
		t.Errorf("tokens gone are %v, want %v", w.dropped, want)
	}
}

// TestTokensOfDeletedMachines: the token that we made for a machine that is being deleted goes at once, and none that the bootstrap
// provider made.
func TestTokensOfDeletedMachines(t *testing.T) {
	w := grown(t, 3)
	w.giveToken("demo-cp-2", "aaaaaa.0123456789abcdef")
	w.giveToken("demo-cp-3", "bbbbbb.0123456789abcdef")
	config := w.kubeadmConfigOf("demo-cp-2")
	config.Annotations = map[string]string{controlplanev1.TokenMadeAnnotation: "2026-01-01T00:00:00Z"}
	if err := w.client.Update(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	config = w.kubeadmConfigOf("demo-cp-3")
	config.Annotations = nil
	if err := w.client.Update(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	w.settle()
	for _, name := range []string{"demo-cp-2", "demo-cp-3"} {
		if err := w.client.Delete(context.Background(), w.machine(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	if !slices.Contains(w.dropped, "aaaaaa") || slices.Contains(w.dropped, "bbbbbb") {
		t.Errorf("tokens gone are %v, want aaaaaa alone", w.dropped)
	}
}

// TestTokensHoldUpNothing: where tokens cannot be removed, the control plane goes on, and they are not asked for in every turn.
func TestTokensHoldUpNothing(t *testing.T) {
	w := grown(t, 3)
	w.giveToken("demo-cp-2", "aaaaaa.0123456789abcdef")
	w.failDrop = errors.New("the API server refuses it")
	w.register("demo-cp-2")
	for range 3 {
		if p := w.settle(); p.Step != "Nothing" {
			t.Fatalf("it ends with %+v", p)
		}
	}
	if len(w.dropped) != 1 {
		t.Errorf("tokens were asked for %d times, want once: %v", len(w.dropped), w.dropped)
	}
	w.failDrop = nil
	w.r.Memories.Of(kcpKey).Tokens = observe.TokensDropped{}
	w.settle()
	if len(w.dropped) != 2 {
		t.Errorf("later they were not asked for again: %v", w.dropped)
	}
}

// firstUp returns a world in which the first machine of a control plane has initialised the cluster, and the others may join.
func firstUp(w *world) *world {
	w.t.Helper()
	w.settle()
	w.join("demo-cp-1")
	w.init = true
	w.settle()
	return w
}

// tokenOf is the bootstrap token in a machine's KubeadmConfig.
func (w *world) tokenOf(name string) string {
	w.t.Helper()
	return w.kubeadmConfigOf(name).Spec.JoinConfiguration.Discovery.BootstrapToken.Token
}

// TestTokensAreGiven: a machine that joins has its token when it is made, and does not wait for the bootstrap provider to connect to the
// cluster.
func TestTokensAreGiven(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(3))
	watch := &slotWatch{w, map[string]int{}}
	w.r.Slots, w.r.Kubeadm = observe.NewSlots(1), watch
	firstUp(w)
	for name, want := range map[string]string{"demo-cp-1": "", "demo-cp-2": "000001.0123456789abcdef",
		"demo-cp-3": "000002.0123456789abcdef"} {
		if got := w.tokenOf(name); got != want {
			t.Errorf("the token of %s is %q, want %q", name, got, want)
		}
	}
	if watch.asked["NewToken"] != 2 {
		t.Errorf("asked for tokens were %d", watch.asked["NewToken"])
	}
	w.join("demo-cp-2")
	w.join("demo-cp-3")
	w.forgetEtcd()
	if p := w.settle(); p.Step != "Nothing" {
		t.Errorf("machines with their own tokens are not as wanted: %+v", p)
	}
}

// TestTokensAreGivenLater: a machine that was made ahead gets its token when it may join.
func TestTokensAreGivenLater(t *testing.T) {
	w := newWorld(t, testCluster(), eagerKCP(3))
	w.settle()
	if w.tokens > 0 {
		t.Error("tokens were made before there was a cluster")
	}
	w.join("demo-cp-1")
	w.init = true
	w.settle()
	for _, name := range []string{"demo-cp-2", "demo-cp-3"} {
		if w.tokenOf(name) == "" {
			t.Errorf("%s has no token", name)
		}
	}
	if w.tokens != 2 {
		t.Errorf("%d tokens were made", w.tokens)
	}
}

// TestTokensAreNotGiven: where no token can be made, or the user gave a way to join, it is left to the bootstrap provider, and holds up
// nothing.
func TestTokensAreNotGiven(t *testing.T) {
	for what, change := range map[string]func(*world, *bootstrapv1.Discovery){
		"the cluster refuses": func(w *world, _ *bootstrapv1.Discovery) { w.failToken = errors.New("the API server refuses it") },
		"a token is given":    func(_ *world, d *bootstrapv1.Discovery) { d.BootstrapToken.Token = "users1.0123456789abcdef" },
		"an endpoint is given": func(_ *world, d *bootstrapv1.Discovery) {
			d.BootstrapToken.APIServerEndpoint = "other.example.org:6443"
		},
		"a file is given":        func(_ *world, d *bootstrapv1.Discovery) { d.File.KubeConfigPath = "/etc/discovery" },
		"another token is given": func(_ *world, d *bootstrapv1.Discovery) { d.TLSBootstrapToken = "users1.0123456789abcdef" },
	} {
		t.Run(what, func(t *testing.T) {
			kcp, want := testKCP(3), bootstrapv1.Discovery{}
			w := newWorld(t, testCluster(), kcp)
			change(w, &want)
			kcp = w.kcp()
			kcp.Spec.KubeadmConfigSpec.JoinConfiguration.Discovery = want
			if err := w.client.Update(t.Context(), kcp); err != nil {
				t.Fatal(err)
			}
			firstUp(w)
			for _, name := range []string{"demo-cp-2", "demo-cp-3"} {
				if got := w.kubeadmConfigOf(name).Spec.JoinConfiguration.Discovery; !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s is to join by %+v, want %+v", name, got, want)
				}
			}
			if w.tokens > 0 {
				t.Errorf("%d tokens were made for nothing", w.tokens)
			}
		})
	}
}

// TestTokensAreRenewed: a token is replaced long before it expires, until there is bootstrap data with it.
func TestTokensAreRenewed(t *testing.T) {
	w := firstUp(newWorld(t, testCluster(), testKCP(3)))
	made := func(name string, ago time.Duration) {
		t.Helper()
		config := w.kubeadmConfigOf(name)
		config.Annotations[controlplanev1.TokenMadeAnnotation] = time.Now().Add(-ago).UTC().Format(time.RFC3339)
		if err := w.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	token := func(name string) string {
		t.Helper()
		config := w.kubeadmConfigOf(name)
		at, err := time.Parse(time.RFC3339, config.Annotations[controlplanev1.TokenMadeAnnotation])
		if err != nil || time.Since(at) > 5*time.Minute {
			t.Errorf("the token of %s was made at %s, %v", name, at, err)
		}
		return config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token
	}
	one, other := token("demo-cp-2"), token("demo-cp-3")
	made("demo-cp-2", 4*time.Minute)
	w.settle()
	if got := token("demo-cp-2"); got != one {
		t.Errorf("after four minutes the token is %q, want %q", got, one)
	}
	made("demo-cp-2", 6*time.Minute)
	made("demo-cp-3", time.Hour)
	data := w.machine("demo-cp-3")
	data.Spec.Bootstrap.DataSecretName = ptr.To("demo-cp-3")
	if err := w.client.Update(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	w.failToken = errors.New("the API server refuses it")
	if p := w.settle(); p.Reason != "Joining" {
		t.Errorf("a token that cannot be made holds something up: %+v", p)
	}
	w.failToken = nil
	w.r.Memories.Of(kcpKey).Tokens = observe.TokensDropped{}
	w.settle()
	if got := token("demo-cp-2"); got == one || got == "" {
		t.Errorf("after six minutes the token is %q still", got)
	}
	if got := w.tokenOf("demo-cp-3"); got != other {
		t.Errorf("the token of a machine that has its data is %q, want %q", got, other)
	}
	made("demo-cp-2", 6*time.Minute)
	before := w.tokens
	w.settle()
	if w.tokens != before {
		t.Errorf("tokens are asked for again and again: %d", w.tokens-before)
	}
	w.r.Memories.Of(kcpKey).Tokens = observe.TokensDropped{}
	config := w.kubeadmConfigOf("demo-cp-2")
	config.Status.Initialization.DataSecretCreated = ptr.To(true)
	if err := w.client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if w.tokens != before {
		t.Error("another token is made where the provider has made data already, of which the Machine does not know yet")
	}
}

// TestTokensAreKept: a token that data may have been made of meanwhile stays, also where a step is repeated on an old look.
func TestTokensAreKept(t *testing.T) {
	t.Run("renewed", func(t *testing.T) {
		w := firstUp(newWorld(t, testCluster(), testKCP(3)))
		w.onToken = func() {
			config := w.kubeadmConfigOf("demo-cp-2")
			config.Status.Initialization.DataSecretCreated = ptr.To(true)
			if err := w.client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
		config, before := w.kubeadmConfigOf("demo-cp-2"), w.tokens
		config.Annotations[controlplanev1.TokenMadeAnnotation] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		if err := w.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got, want := w.tokenOf("demo-cp-2"), config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token; got != want || w.tokens == before {
			t.Errorf("the token is %q, want %q; %d were made", got, want, w.tokens-before)
		}
	})
	t.Run("started again", func(t *testing.T) {
		w := newWorld(t, testCluster(), eagerKCP(3))
		w.settle()
		w.join("demo-cp-1")
		w.init = true
		one, other := w.scene(), w.scene()
		step := plan.Step{Verb: plan.StartBootstrap, Machine: "demo-cp-2"}
		if err := one.Do(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		want := w.tokenOf("demo-cp-2")
		if err := other.Do(t.Context(), step); !apierrors.IsConflict(err) {
			t.Errorf("repeated on an old look: %v", err)
		}
		if got := w.tokenOf("demo-cp-2"); got != want || want == "" {
			t.Errorf("the token is %q, want %q", got, want)
		}
	})
}
