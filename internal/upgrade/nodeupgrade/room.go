package nodeupgrade

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/untrusted"
	"github.com/quorate/quorate/internal/upgrade/eviction"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// How much of a cluster is read to find room for the pods of one node. Where more nodes than mostNodesAsked accept such pods there is taken
// to be room.
const (
	nodesAtOnce    = 100
	mostNodesAsked = 20
)

// room finds out whether the pods of a node that is to be drained have room on other nodes. Where they do not, a drain is left out, or
// waited with if it is required. A drain that this upgrade has begun goes on: the node is cordoned, and evicted pods took the room of
// others.
func (w *look) room(ctx context.Context, u *upgradev1.NodeUpgrade) (upgradepod.Obstacle, error) {
	policy, _ := upgradepod.Drain(u)
	by, cordoned := w.node.Annotations[steps.CordonedAnnotation]
	switch {
	case policy == "" || policy == steps.DrainNever || cordoned && by == upgradepod.ID(u):
		return upgradepod.Obstacle{}, nil
	case w.env.SingleNode:
		w.env.NotDrained = "it is the only node of the cluster"
		return upgradepod.Obstacle{}, nil
	}
	pods, err := w.podsOn(ctx, w.env.Node)
	if err != nil {
		return upgradepod.Obstacle{}, err
	}
	homeless := eviction.Homeless(pods)
	left, err := w.place(ctx, homeless)
	if err != nil || len(left) == 0 {
		return upgradepod.Obstacle{}, err
	}
	text := fmt.Sprintf("%d of the %d pods that would leave have no room on another node: %s", len(left), len(homeless),
		untrusted.Shown(eviction.Names(left)))
	if policy == steps.DrainRequired {
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForRoom, Message: text}, nil
	}
	w.env.NotDrained = text
	return upgradepod.Obstacle{}, nil
}

// place puts pods on the other nodes of the cluster, in thought, and returns those that have no room on any.
func (w *look) place(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	options, asked := metav1.ListOptions{Limit: nodesAtOnce}, 0
	for len(pods) > 0 {
		nodes, err := w.set.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing Nodes: %w", err)
		}
		for i := range nodes.Items {
			node := &nodes.Items[i]
			if node.Name == w.env.Node || len(pods) == 0 || !acceptsAny(node, pods) {
				continue
			}
			if asked++; asked > mostNodesAsked {
				return nil, nil
			}
			there, err := w.podsOn(ctx, node.Name)
			if err != nil {
				return nil, err
			}
			pods = eviction.Place(node, there, pods)
		}
		if options.Continue = nodes.Continue; options.Continue == "" {
			break
		}
	}
	return pods, nil
}

// acceptsAny reports whether a node accepts one of some pods.
func acceptsAny(node *corev1.Node, pods []*corev1.Pod) bool {
	for _, p := range pods {
		if eviction.Accepts(node, p) {
			return true
		}
	}
	return false
}

// podsOn lists the pods that are bound to a node.
func (w *look) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods, err := w.set.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of Node %s: %w", node, err)
	}
	return pods.Items, nil
}
