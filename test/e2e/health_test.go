//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// healthy returns a function that says what is missing until all nodes are Ready, and all pods of the system are there and ready.
func (e *environment) healthy(t *testing.T, name string, nodes int) func() string {
	c, _ := e.workload(t, name)
	return func() string { return unhealthy(context.Background(), c, nodes) }
}

func unhealthy(ctx context.Context, c kubernetes.Interface, want int) string {
	nodes, err := c.CoreV1().Nodes().List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	if len(nodes.Items) != want {
		return fmt.Sprintf("%d nodes, want %d", len(nodes.Items), want)
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Sprintf("node %s: %s", n.Name, c.Message)
			}
		}
	}
	pods, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for _, p := range pods.Items {
		if p.Labels["app.kubernetes.io/name"] == "quorate-upgrader" {
			continue // it ends, and one that failed is kept for people to read
		}
		if !podReady(&p) {
			return fmt.Sprintf("pod %s is %s and not ready", p.Name, p.Status.Phase)
		}
	}
	return podsMissing(ctx, c)
}

// podsMissing says which Deployment or DaemonSet of the system does not have all its pods, each as its template is now; empty: all have.
// Just after the API server began to serve, the controller manager has created none: no pod is unready then.
func podsMissing(ctx context.Context, c kubernetes.Interface) string {
	deployments, err := c.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for _, d := range deployments.Items {
		want, is := ptr.Deref(d.Spec.Replicas, 1), d.Status
		if is.ObservedGeneration < d.Generation || is.Replicas != want || is.UpdatedReplicas != want || is.AvailableReplicas != want {
			return fmt.Sprintf("Deployment %s has %d pods, %d of them updated and %d available; want %d",
				d.Name, is.Replicas, is.UpdatedReplicas, is.AvailableReplicas, want)
		}
	}
	sets, err := c.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for _, d := range sets.Items {
		want, is := d.Status.DesiredNumberScheduled, d.Status
		if is.ObservedGeneration < d.Generation || is.UpdatedNumberScheduled != want || is.NumberAvailable != want {
			return fmt.Sprintf("DaemonSet %s has %d pods updated and %d available; want %d",
				d.Name, is.UpdatedNumberScheduled, is.NumberAvailable, want)
		}
	}
	return ""
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
