//go:build e2e

package e2e

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joinEager: machines that are made beside the first are there before the cluster is, join it when they may, and are up sooner than
// those that are made when they may join.
func joinEager(t *testing.T, e *environment) {
	e.quorate(t, "up", "--network", e.network, "--name", "first", "--replicas", "1")
	e.takeDown(t, "first")
	plain, eager := variant{"as they may join", nil}, variant{"ahead", []string{"--eager"}}
	e.inTurns(t, 2, plain, eager, func(v variant, name string) {
		initialised, made := e.births(t, name)
		early := 0
		for _, at := range made {
			if at.Before(initialised) {
				early++
			}
		}
		if want := map[string]int{plain.what: 1, eager.what: 3}[v.what]; early != want {
			t.Errorf("machines made %s: %d of %d were made before the cluster was initialised, want %d", v.what, early, len(made), want)
		}
	})
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
