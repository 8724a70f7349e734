package stacked

import (
	"context"
	"errors"
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/group"
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
	w.r.Slots, w.r.Kubeadm = group.NewSlots(1), watch
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
	w.r.Memories.Of(kcpKey).Tokens = group.TokensDropped{}
	w.settle()
	if len(w.dropped) != 2 {
		t.Errorf("later they were not asked for again: %v", w.dropped)
	}
}
