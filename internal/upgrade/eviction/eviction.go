// Package eviction knows which pods leave a node that is drained, and which of them fit on no other node. It counts what Kubernetes'
// scheduler counts of nodes and requests. It does not know of volumes that are bound to a node, of topology spread constraints and of
// preemption, and has no client.
package eviction

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	requests "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Leaves reports whether a drain evicts a pod. The kubelet's static pods stay, pods of a DaemonSet, which would come back, and the
// upgrader's own.
func Leaves(p *corev1.Pod) bool {
	if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static || p.Namespace == metav1.NamespaceSystem &&
		p.Labels[steps.PodLabel] == steps.PodLabelValue {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return owner == nil || owner.Kind != "DaemonSet" || isOver(p)
}

// isOver reports whether a pod has ended, so that it uses nothing of its node any more.
func isOver(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Homeless returns the pods of a node that need room on another one when the node is drained, those with the largest requests first.
func Homeless(pods []corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for i := range pods {
		if p := &pods[i]; Leaves(p) && !isOver(p) && p.DeletionTimestamp.IsZero() {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b *corev1.Pod) int {
		one, other := needs(a), needs(b)
		if c := other.Memory().Cmp(*one.Memory()); c != 0 {
			return c
		}
		return other.Cpu().Cmp(*one.Cpu())
	})
	return found
}

// Names names the first three of some pods, and says how many more there are.
func Names(pods []*corev1.Pod) string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return plaintext.List(all)
}

// Accepts reports whether a node accepts a pod, however full it is: it is ready, and can be scheduled to, the pod tolerates its taints, and
// selects it.
func Accepts(node *corev1.Node, p *corev1.Pod) bool {
	if node.Spec.Unschedulable || !node.DeletionTimestamp.IsZero() || !isReady(node) {
		return false
	}
	keepsAway := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if _, found := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, p.Spec.Tolerations, keepsAway, true); found {
		return false
	}
	selected, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node)
	return err == nil && selected
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Place puts pods on a node on which some run already, one after the other, and returns those that it has no room for.
func Place(node *corev1.Node, there []corev1.Pod, pods []*corev1.Pod) (left []*corev1.Pod) {
	free := maps.Clone(node.Status.Allocatable)
	if free == nil {
		free = corev1.ResourceList{}
	}
	var beside []*corev1.Pod
	for i := range there {
		if p := &there[i]; !isOver(p) {
			take(free, needs(p))
			beside = append(beside, p)
		}
	}
	for _, p := range pods {
		if !Accepts(node, p) || !fits(free, needs(p)) ||
			slices.ContainsFunc(beside, func(other *corev1.Pod) bool { return repel(node, p, other) }) {
			left = append(left, p)
			continue
		}
		take(free, needs(p))
		beside = append(beside, p)
	}
	return left
}

// needs is what a pod takes of a node: what it requests, and its place among the pods.
func needs(p *corev1.Pod) corev1.ResourceList {
	list := requests.PodRequests(p, requests.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}

// fits reports whether a node has free what a pod needs.
func fits(free, needed corev1.ResourceList) bool {
	for name, quantity := range needed {
		has := free[name]
		if quantity.Sign() > 0 && has.Cmp(quantity) < 0 {
			return false
		}
	}
	return true
}

func take(free, needed corev1.ResourceList) {
	for name, quantity := range needed {
		has := free[name].DeepCopy()
		has.Sub(quantity)
		free[name] = has
	}
}

// repel reports whether two pods must not run on the same node: one keeps the other away from it, or both want the same port of it.
func repel(node *corev1.Node, a, b *corev1.Pod) bool {
	return keepsAway(node, a, b) || keepsAway(node, b, a) || sharePort(a, b)
}

// keepsAway reports whether a pod's required anti-affinity among nodes is about another pod. Of terms among zones it is not known who runs
// there, and terms that select namespaces by labels need the namespaces: neither counts.
func keepsAway(node *corev1.Node, p, other *corev1.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for _, term := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if _, has := node.Labels[term.TopologyKey]; !has || term.TopologyKey != corev1.LabelHostname || term.LabelSelector == nil {
			continue
		}
		if len(term.Namespaces) == 0 && other.Namespace != p.Namespace || len(term.Namespaces) > 0 &&
			!slices.Contains(term.Namespaces, other.Namespace) {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector); err == nil && selector.Matches(labels.Set(other.Labels)) {
			return true
		}
	}
	return false
}

// sharePort reports whether two pods want the same port of their node.
func sharePort(a, b *corev1.Pod) bool {
	for _, one := range ports(a) {
		if slices.ContainsFunc(ports(b), func(other corev1.ContainerPort) bool {
			return one.HostPort == other.HostPort && protocol(one) == protocol(other) &&
				(one.HostIP == other.HostIP || isAny(one.HostIP) || isAny(other.HostIP))
		}) {
			return true
		}
	}
	return false
}

// ports are those of its node that a pod wants.
func ports(p *corev1.Pod) []corev1.ContainerPort {
	var all []corev1.ContainerPort
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				all = append(all, port)
			}
		}
	}
	return all
}

func protocol(p corev1.ContainerPort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

// isAny reports whether an address stands for all of a node's.
func isAny(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
