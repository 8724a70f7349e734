//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slowMaking is how long infrastructure takes in this life to make a machine: about what a cloud's takes.
const slowMaking = 30 * time.Second

// slowestEager bounds how long 0 -> 3 takes with machines that are made ahead, in times of the same without, on such infrastructure.
const slowestEager = 0.8

// joinEager: machines that are made beside the first are there before the cluster is, join it when they may, and are up sooner than
// those that are made when they may join. No bootstrap token outlives its machine's join.
func joinEager(t *testing.T, e *environment) {
	e.quorate(t, "up", "--network", e.network, "--name", "first", "--replicas", "1")
	e.takeDown(t, "first")
	look := func(v variant, name string) {
		initialised, made := e.births(t, name)
		early := 0
		for _, at := range made {
			if !at.After(initialised) {
				early++
			}
		}
		if want := map[bool]int{false: 1, true: 3}[slices.Contains(v.flags, "--eager")]; early != want {
			t.Errorf("%s: %d of %d machines were made before the cluster was initialised, want %d", v.what, early, len(made), want)
		}
		eventually(t, "no bootstrap token is left", time.Minute, e.noTokens(t, name))
	}
	e.inTurns(t, 1, variant{what: "made when they may join"}, variant{what: "made ahead", flags: []string{"--eager"}}, look)
	ratio := e.inTurns(t, 1, variant{what: "slowly made, when they may join", making: slowMaking},
		variant{what: "slowly made, ahead", flags: []string{"--eager"}, making: slowMaking}, look)
	if ratio > slowestEager {
		t.Errorf("on slow infrastructure machines made ahead took %.2f times as long, want at most %.1f", ratio, slowestEager)
	}
}

// noTokens says which bootstrap tokens of the bootstrap provider are left in a cluster.
func (e *environment) noTokens(t *testing.T, name string) func() string {
	c, _ := e.workload(t, name)
	return func() string {
		all, err := c.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(),
			metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
		if err != nil {
			return err.Error()
		}
		var left []string
		for _, s := range all.Items {
			if strings.Contains(string(s.Data["description"]), "cluster-api") {
				left = append(left, s.Name)
			}
		}
		return strings.Join(left, ", ")
	}
}

// births returns when a cluster was initialised, and when each machine of its control plane was made.
func (e *environment) births(t *testing.T, name string) (initialised time.Time, made []time.Time) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := e.management(t).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	for _, c := range cluster.Status.Conditions {
		if c.Type == clusterv1.ClusterControlPlaneInitializedCondition {
			initialised = c.LastTransitionTime.Time
		}
	}
	for _, m := range e.machinesWith(t, clusterLabels(name)) {
		made = append(made, m.CreationTimestamp.Time)
	}
	return initialised, made
}
