package upgradepod

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/plaintext"
	"github.com/quorate/quorate/internal/steps"
)

// longestMessage is how many bytes of what a step printed a condition tells.
const longestMessage = 1000

// progress is what a pod's status says of its steps.
type progress struct {
	// names are the steps, conditions what is known of each, in their order.
	names      []string
	conditions []metav1.Condition
	// at is the step that runs, failed, was cut off or comes next; nothing of it is known after the last one.
	at steps.Step
	// waiting says why the container of that step does not run yet; empty: it runs, or nothing is said.
	waiting string
	// result is how that step ended, and advice what a person can do about it.
	result steps.Result
	// ended: no container of the pod runs any more, or ever will. completed: all steps succeeded.
	ended, completed bool
	// why says what the kubelet has to say of the pod's end.
	why string
}

// observe reads a pod's status.
func observe(pod *corev1.Pod) progress {
	p := progress{ended: pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded}
	p.why = strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		statuses[s.Name] = s
	}
	p.completed = true
	for _, c := range append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
		step, known := steps.ByContainer(c.Name)
		if !known {
			continue // something added a container of its own
		}
		condition, result := stepCondition(step, statuses[c.Name].State)
		p.names = append(p.names, string(step.Name))
		p.conditions = append(p.conditions, condition)
		if result.State.Succeeded() || !p.completed {
			continue
		}
		p.completed, p.at, p.result, p.waiting = false, step, result, waiting(statuses[c.Name].State)
	}
	if len(p.names) == 0 {
		p.completed = false
	}
	return p
}

// waiting says why a container does not run yet; empty: it runs, or waits for those before it.
func waiting(state corev1.ContainerState) string {
	w := state.Waiting
	if w == nil || w.Reason == "" || w.Reason == "PodInitializing" {
		return ""
	}
	return strings.TrimSpace(w.Reason + ": " + w.Message)
}

// stepCondition tells how a step's container is.
func stepCondition(step steps.Step, state corev1.ContainerState) (metav1.Condition, steps.Result) {
	c := metav1.Condition{Type: string(step.Name), Status: metav1.ConditionUnknown, Reason: upgradev1.Pending, Message: step.Does}
	switch {
	case state.Running != nil:
		c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, upgradev1.Running, state.Running.StartedAt
		return c, steps.Result{}
	case state.Terminated == nil:
		return c, steps.Result{}
	}
	ended := state.Terminated
	result := steps.ParseResult(ended.Message)
	c.LastTransitionTime = ended.FinishedAt
	c.Message = fmt.Sprintf("%s; took %.1f s", step.Does, result.Seconds)
	switch result.State {
	case steps.Done:
		c.Status, c.Reason = metav1.ConditionTrue, upgradev1.Done
	case steps.Skipped:
		c.Status, c.Reason = metav1.ConditionTrue, upgradev1.Skipped
	case steps.Failed:
		c.Status, c.Reason = metav1.ConditionFalse, upgradev1.Failed
	case steps.RolledBack:
		c.Status, c.Reason = metav1.ConditionFalse, upgradev1.RolledBack
	default:
		c.Status, c.Reason = metav1.ConditionFalse, upgradev1.Interrupted
		c.Message = fmt.Sprintf("%s; it was cut off with exit code %d %s", step.Does, ended.ExitCode, ended.Reason)
		result.Message = plaintext.Redact(strings.TrimSpace(ended.Message)) // of a step that could not even begin, the runtime's words
	}
	if result.Message != "" {
		c.Message += ":\n" + plaintext.End(result.Message, longestMessage)
	}
	return c, result
}

// since is when a pod got to the step that it is at.
func (p progress) since(pod *corev1.Pod) time.Time {
	newest := pod.CreationTimestamp.Time
	for _, c := range p.conditions {
		if c.LastTransitionTime.After(newest) {
			newest = c.LastTransitionTime.Time
		}
	}
	return newest
}

// attemptOf is the number of a pod among those of its NodeUpgrade; 0: it does not say.
func attemptOf(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Labels[AttemptLabel], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// stepLimit is how long a step may take before it counts as hung.
func stepLimit(step steps.Name, u *upgradev1.NodeUpgrade) time.Duration {
	seconds := func(given *int32, otherwise int32) time.Duration {
		if given != nil {
			otherwise = *given
		}
		return time.Duration(otherwise) * time.Second
	}
	verify := seconds(u.Spec.VerifyTimeoutSeconds, steps.DefaultVerifyTimeout)
	switch step {
	case steps.Images:
		return 30 * time.Minute
	case steps.Drain:
		return seconds(u.Spec.Drain.TimeoutSeconds, steps.DefaultDrainTimeout) + 2*time.Minute
	case steps.Swap:
		return 2*verify + 3*time.Minute // it is waited for twice: for the new version, and for the old one that was put back
	case steps.Verify:
		return verify + 2*time.Minute
	}
	return 10 * time.Minute
}
