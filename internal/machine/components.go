package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/plaintext"
	"github.com/quorate/quorate/internal/plan"
)

// Components tells of the static pods of these names that a control plane machine with this Node should
// run. What there is no pod for is Unknown; so are all of a machine that has no Node yet (an empty name).
func Components(node string, pods []corev1.Pod, names []string) []plan.Component {
	out := make([]plan.Component, 0, len(names))
	for _, name := range names {
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool {
			return node != "" && p.Namespace == metav1.NamespaceSystem && p.Name == name+"-"+node && p.Spec.NodeName == node
		})
		switch {
		case node == "":
			out = append(out, plan.Component{Name: name, Why: "the machine has no Node yet"})
		case at < 0:
			out = append(out, plan.Component{Name: name, Why: "there is no pod " + name + "-" + node})
		default:
			out = append(out, component(name, &pods[at]))
		}
	}
	return out
}

// component judges one static pod.
func component(name string, pod *corev1.Pod) plan.Component {
	c := plan.Component{Name: name, Health: plan.Unhealthy}
	ready := corev1.PodCondition{Status: corev1.ConditionFalse}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			ready = condition
		}
	}
	switch {
	case !pod.DeletionTimestamp.IsZero():
		c.Why = "the pod is being deleted"
	case ready.Status == corev1.ConditionUnknown || pod.Status.Phase == corev1.PodUnknown:
		// Nobody has heard from the kubelet for a while.
		c.Health, c.Why = plan.Unknown, cmp.Or(ready.Message, "the kubelet does not report")
	case pod.Status.Phase == corev1.PodRunning && ready.Status == corev1.ConditionTrue:
		c.Health = plan.Healthy
	default:
		c.Why = ailment(pod, ready)
	}
	return c
}

// ailment says why a pod is not ready: what its containers wait for and how they ended
// before, or what the pod itself says.
func ailment(pod *corev1.Pod, ready corev1.PodCondition) string {
	var parts []string
	for _, s := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		parts = append(parts, containerAilments(s)...)
	}
	if len(parts) == 0 {
		parts = append(parts, sentence(cmp.Or(pod.Status.Reason, ready.Reason, "the pod is "+cmp.Or(string(pod.Status.Phase), "new")), cmp.Or(pod.Status.Message, ready.Message)))
	}
	return strings.Join(parts, "; ")
}

// containerAilments says what a container waits for, how it ended before, and whether it runs without being ready.
func containerAilments(s corev1.ContainerStatus) []string {
	var parts []string
	if w := s.State.Waiting; w != nil {
		parts = append(parts, sentence(cmp.Or(w.Reason, "Waiting"), w.Message))
	}
	if s.Ready {
		return parts
	}
	for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if ended != nil && (ended.ExitCode != 0 || ended.Signal != 0) {
			parts = append(parts, sentence(fmt.Sprintf("ended with code %d (%s)", ended.ExitCode, ended.Reason), ended.Message))
		}
	}
	if s.State.Running != nil {
		parts = append(parts, "running, and its probe does not succeed yet")
	}
	return parts
}

// sentence joins a word and what explains it, cut to what a condition's message can hold.
func sentence(word, explanation string) string {
	const longest = 300
	// The end of a container's last words tells most.
	explanation = plaintext.End(strings.TrimSpace(explanation), longest)
	if explanation == "" {
		return word
	}
	return word + ": " + explanation
}
