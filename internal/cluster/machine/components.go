package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Components tells of the static pods of these names that a control plane machine with this Node should
// run. What there is no pod for is Unknown; so are all of a machine that has no Node yet (an empty name).
func Components(node string, pods []corev1.Pod, names []string) []plan.Component {
	out := make([]plan.Component, 0, len(names))
	for _, name := range names {
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return isComponent(&p, name, node) })
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
		// The kubelet has not reported for a while.
		c.Health, c.Why = plan.Unknown, cmp.Or(plaintext.Quote(ready.Message, longestWords), "the kubelet does not report")
	case pod.Status.Phase == corev1.PodRunning && ready.Status == corev1.ConditionTrue:
		c.Health = plan.Healthy
	default:
		c.Why = ailment(pod, ready)
	}
	return c
}

// PodConditions are the conditions of a Machine by the name of the static pod that each is about, as upstream's control plane provider has
// them.
var PodConditions = map[string]string{
	"etcd":                    upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
	"kube-apiserver":          upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
	"kube-controller-manager": upstream.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
	"kube-scheduler":          upstream.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
}

// Reported takes those components of a Machine's Node for healthy of which its controller said a moment ago that they are, after their
// containers started. It may know of somebody else than the kubelet that they answer.
func Reported(components []plan.Component, m *clusterv1.Machine, node string, pods []corev1.Pod, now time.Time) {
	for i := range components {
		said := meta.FindStatusCondition(m.Status.Conditions, PodConditions[components[i].Name])
		if said != nil && said.Status == metav1.ConditionTrue {
			at := said.LastTransitionTime.Time
			Answered(components[i:i+1], node, pods, at, now.Sub(at))
		}
	}
}

// startupTurn is how long a container may wait for the turn of its startup probe. kubeadm has it asked after ten seconds and then every
// ten, and a kubelet that was started a moment ago puts it off by up to ten more.
const startupTurn = 45 * time.Second

// Answered takes those components of a Node for healthy that answered the probes of another than the kubelet, at a time of the node's
// clock and so long ago. The kubelet has not reported them yet since their containers started: the turn of their
// startup probe has not come.
func Answered(components []plan.Component, node string, pods []corev1.Pod, at time.Time, ago time.Duration) {
	if at.IsZero() || ago > startupTurn {
		return
	}
	for i := range components {
		c := &components[i]
		found := slices.IndexFunc(pods, func(p corev1.Pod) bool { return isComponent(&p, c.Name, node) })
		if c.Health == plan.Unhealthy && found >= 0 && onlyStarting(&pods[found], at) {
			*c = plan.Component{Name: c.Name, Health: plan.Healthy}
		}
	}
}

// onlyStarting reports whether nothing is wrong with a static pod but that the kubelet has not asked its startup probes yet, and all of it
// was started before a time.
func onlyStarting(pod *corev1.Pod, at time.Time) bool {
	if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase != corev1.PodRunning ||
		len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		started := ptr.Deref(s.Started, false)
		return s.State.Running == nil || s.State.Running.StartedAt.IsZero() || s.State.Running.StartedAt.After(at) || started && !s.Ready
	})
}

// isComponent reports whether a pod is the static pod of a component on a Node.
func isComponent(p *corev1.Pod, name, node string) bool {
	return node != "" && p.Namespace == metav1.NamespaceSystem && p.Name == name+"-"+node && p.Spec.NodeName == node
}

// ailment says why a pod is not ready: what its containers wait for and how they ended
// before, or what the pod itself says.
func ailment(pod *corev1.Pod, ready corev1.PodCondition) string {
	var parts []string
	for _, s := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		parts = append(parts, containerAilments(s)...)
	}
	if len(parts) == 0 {
		parts = append(parts, sentence(cmp.Or(pod.Status.Reason, ready.Reason, "the pod is "+cmp.Or(string(pod.Status.Phase), "new")),
			cmp.Or(pod.Status.Message, ready.Message)))
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

// Most bytes of what others report about a container or a machine, and of their word for it.
const (
	longestWords = 300
	longestWord  = 100
)

// sentence joins a word and what explains it, both of a container or of its kubelet, cut to what a condition's message can hold.
func sentence(word, explanation string) string {
	word = plaintext.Quote(word, longestWord)
	// The end of a container's last words tells most.
	explanation = plaintext.QuoteEnd(explanation, longestWords)
	if explanation == "" {
		return word
	}
	return word + ": " + explanation
}
