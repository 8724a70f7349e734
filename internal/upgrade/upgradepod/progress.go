package upgradepod

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// longestMessage is how many bytes of what a step printed a condition tells.
const longestMessage = 1000

// longestNote is how many bytes the note of an event may have.
const longestNote = 1000

// Note is what an event says of the condition Progressing of an upgrade.
func Note(u *upgradev1.NodeUpgrade, progressing *metav1.Condition) string {
	return plaintext.Beginning(u.Spec.Machine.Name+": "+progressing.Message, longestNote)
}

// progress is what a pod's status says of its steps.
type progress struct {
	// names are the steps, conditions what is known of each, in their order.
	names      []string
	conditions []metav1.Condition
	// at is the step that failed, was cut off, comes next, or is the first one not known to be over; nothing of it is known after the last
	// one.
	at steps.Step
	// stage are the steps of that step's container. Which of them runs is not known before all have ended.
	stage []steps.Step
	// waiting says why that container does not run yet; empty: it runs, or nothing is said.
	waiting string
	// result is how the step ended, and advice what a person can do about it.
	result steps.Result
	// ended: no container of the pod runs any more, or ever will. completed: all steps succeeded.
	ended, completed bool
	// why returns what the kubelet reports about the pod's end.
	why string
}

// observe reads a pod's status.
func observe(pod *corev1.Pod) progress {
	p := progress{ended: pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded}
	p.why = plaintext.Quote(pod.Status.Reason+" "+pod.Status.Message, longestMessage)
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		statuses[s.Name] = s
	}
	p.completed = true
	for _, c := range append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
		p.look(stepsOf(c), statuses[c.Name].State)
	}
	if len(p.names) == 0 {
		p.completed = false
	}
	if p.result.State == steps.RolledBack {
		p.undoSwap()
	}
	return p
}

// undoSwap notes that what the swap did was undone, also where a step after it failed: a reader of its condition wants to know what runs
// on the node.
func (p *progress) undoSwap() {
	for i := range p.conditions {
		if c := &p.conditions[i]; c.Type == string(steps.Swap) && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason = metav1.ConditionFalse, upgradev1.RolledBack
			c.Message += "; it was undone, because of " + string(p.failed())
		}
	}
}

// stepsOf are the steps that a container carries out; none: something added a container of its own.
func stepsOf(c corev1.Container) []steps.Step {
	var list []steps.Step
	for _, argument := range c.Args {
		if step, known := steps.ByCommand(argument); known {
			list = append(list, step)
		}
	}
	return list
}

// look adds what a container's status says of its steps.
func (p *progress) look(stage []steps.Step, state corev1.ContainerState) {
	over := metav1.Time{}
	results := map[steps.Name]steps.Result{}
	if state.Terminated != nil {
		results, over = steps.ParseResults(state.Terminated.Message), state.Terminated.StartedAt
	}
	failed := false
	for i, step := range stage {
		result := results[step.Name]
		over = metav1.NewTime(over.Add(time.Duration(result.Seconds * float64(time.Second))))
		c := metav1.Condition{Type: string(step.Name), Status: metav1.ConditionUnknown, Reason: upgradev1.Pending, Message: step.Does}
		if !failed {
			c = stepCondition(step, state, result)
		}
		if result.State.Succeeded() && i < len(stage)-1 && !state.Terminated.StartedAt.IsZero() {
			c.LastTransitionTime = over
		}
		p.names, p.conditions = append(p.names, c.Type), append(p.conditions, c)
		failed = failed || result.State == steps.Failed || result.State == steps.RolledBack
		if result.State.Succeeded() || !p.completed {
			continue
		}
		if ended := state.Terminated; ended != nil && result.State == steps.Interrupted {
			result.Message = outside(ended.Message)
		}
		p.completed, p.at, p.stage, p.result, p.waiting = false, step, stage, result, waiting(state)
	}
}

// failed is the step that failed: a later pod may have seen its undoing to the end, in another step.
func (p progress) failed() steps.Name { return cmp.Or(p.result.FailedStep, p.at.Name) }

// waiting says why a container does not run yet; empty: it runs, or waits for those before it.
func waiting(state corev1.ContainerState) string {
	w := state.Waiting
	if w == nil || w.Reason == "" || w.Reason == "PodInitializing" {
		return ""
	}
	return plaintext.Quote(w.Reason+": "+w.Message, longestMessage)
}

// outside is what is said of a container that was cut off, or could not begin, by others than its steps.
func outside(message string) string {
	var lines []string
	for _, line := range strings.Split(message, "\n") {
		if len(steps.ParseResults(line)) == 0 {
			lines = append(lines, line)
		}
	}
	return plaintext.QuoteEnd(strings.Join(lines, "\n"), longestMessage)
}

// stepCondition tells how a step is, of which and of whose container this is known. What was cut off may have begun, and so may what runs.
func stepCondition(step steps.Step, state corev1.ContainerState, result steps.Result) metav1.Condition {
	c := metav1.Condition{Type: string(step.Name), Status: metav1.ConditionUnknown, Reason: upgradev1.Pending, Message: step.Does}
	switch {
	case state.Running != nil:
		c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, upgradev1.Running, state.Running.StartedAt
		return c
	case state.Terminated == nil:
		return c
	}
	ended := state.Terminated
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
		c.Message = fmt.Sprintf("%s; it was cut off with exit code %d %s", step.Does, ended.ExitCode,
			plaintext.Quote(ended.Reason, longestMessage))
		result.Message = outside(ended.Message) // of a container that could not even begin, the runtime's words
	}
	if result.Message != "" {
		c.Message += ":\n" + plaintext.QuoteEnd(result.Message, longestMessage)
	}
	return c
}

// says is what a stage that is under way is at, for people.
func (p progress) says() string {
	var names []string
	for _, s := range p.stage {
		names = append(names, string(s.Name))
	}
	return strings.Join(names, ", ") + ": " + cmp.Or(p.waiting, p.at.Stage.Does())
}

// limit is how long the stage may take before it counts as hung.
func (p progress) limit(u *upgradev1.NodeUpgrade) time.Duration {
	if p.waiting != "" {
		return startTimeout
	}
	return limitOf(p.stage, u)
}

// limitOf is how long steps may take, one after the other. What an upgrade says of its drain and its verification counts.
func limitOf(list []steps.Step, u *upgradev1.NodeUpgrade) time.Duration {
	var sum time.Duration
	for _, s := range list {
		sum += Wanted(u, Environment{}, 1).Limit(s.Name)
	}
	return sum
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
