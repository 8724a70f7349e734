package provider

import (
	"context"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// TestRevive: a cluster that has its own objects comes up from files alone: endpoints always, machines only after the host was booted, and
// only those of the cluster that nobody stopped.
func TestRevive(t *testing.T) {
	ctx, state, alpha := context.Background(), t.TempDir(), keyOf("alpha")
	e, ended := newEndpoints(t, state)
	pid := e.must(t, alpha, balancer.Config{Listen: freePort(t)})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	h := newHost()
	for name, s := range map[string]sandbox.Status{
		"dead":    {Spec: sandbox.Spec{Cluster: "default/alpha"}, State: sandbox.Dead},
		"stopped": {Spec: sandbox.Spec{Cluster: "default/alpha"}, State: sandbox.Stopped},
		"other":   {Spec: sandbox.Spec{Cluster: "default/bravo"}, State: sandbox.Dead},
	} {
		s.Name = name
		h.all[name] = &s
	}
	for _, booted := range []bool{false, true} {
		if err := revive(ctx, h, e, alpha, booted); err != nil {
			t.Fatal(err)
		}
		if _, ok := balancer.Running(EndpointConfig(state, alpha)); !ok {
			t.Error("the endpoint is not served")
		}
		want := map[string]sandbox.State{"dead": sandbox.Dead, "stopped": sandbox.Stopped, "other": sandbox.Dead}
		if booted {
			want["dead"] = sandbox.Running
		}
		for name, state := range want {
			if got := h.all[name].State; got != state {
				t.Errorf("booted %t: machine %s is %s, want %s", booted, name, got, state)
			}
		}
	}
	if err := e.stop(ctx, alpha); err != nil {
		t.Fatal(err)
	}
}
