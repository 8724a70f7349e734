//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// joinDynamic: beside the first machine of a control plane workers and machines of the control plane join in any order, at any time;
// each has the role that it was made for, and no bootstrap token outlives its machine's join.
func joinDynamic(t *testing.T, e *environment) {
	const name = "dynamo"
	for _, want := range []struct{ controlPlanes, workers int }{{1, 0}, {1, 1}, {3, 1}, {3, 2}} {
		e.up(t, name, "--replicas", strconv.Itoa(want.controlPlanes), "--workers", strconv.Itoa(want.workers))
		eventually(t, fmt.Sprintf("%d healthy nodes of the control plane, %d workers", want.controlPlanes, want.workers), patience,
			func() string {
				if missing := e.healthy(t, name, want.controlPlanes+want.workers)(); missing != "" {
					return missing
				}
				return e.roles(t, name, want.controlPlanes)
			})
	}
	eventually(t, "no bootstrap token is left", 6*time.Minute, e.noTokens(t, name))
	e.takeDown(t, name)
}

// roles says how many nodes have the role of the control plane, unless they are as many as wanted.
func (e *environment) roles(t *testing.T, name string, want int) string {
	t.Helper()
	c, _ := e.workload(t, name)
	all, err := c.CoreV1().Nodes().List(t.Context(), listAll)
	if err != nil {
		return err.Error()
	}
	n := 0
	for _, node := range all.Items {
		if hasRole(node) {
			n++
		}
	}
	if n != want {
		return fmt.Sprintf("%d of %d nodes are of the control plane, want %d", n, len(all.Items), want)
	}
	return ""
}

// hasRole reports whether a node is of the control plane.
func hasRole(node corev1.Node) bool {
	_, is := node.Labels["node-role.kubernetes.io/control-plane"]
	return is
}
