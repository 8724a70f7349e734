package upgradepod

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// MostAttempts is how many pods in a row may be cut off before a person has to look.
const MostAttempts = 5

// How soon to look again, and how long to wait for what is not there.
const (
	SoonRunning = time.Second
	SoonWaiting = 2 * time.Second
	SoonFailed  = 5 * time.Second

	startTimeout  = 10 * time.Minute
	imagesTimeout = 30 * time.Minute
	silentTimeout = 2 * time.Minute
)

// Facts are what a decision about a NodeUpgrade may depend on.
type Facts struct {
	Now time.Time
	// Upgrade must not be nil. Its status is what was decided before.
	Upgrade *upgradev1.NodeUpgrade
	// Paused: a person holds the Cluster or the NodeUpgrade.
	Paused bool
	// Retry: a person asks for another try.
	Retry bool
	// Obstacle is why it cannot begin; the zero value: nothing.
	Obstacle Obstacle
	// Unreachable says why the managed cluster does not answer, so that the pod is not known; empty: it does.
	Unreachable string
	// Pod is the one of the NodeUpgrade; nil: there is none.
	Pod *corev1.Pod
	// NotDrained says why the next pod does not drain the node although that is wanted; empty: it does, or need not.
	NotDrained string
}

// Obstacle is why an upgrade cannot begin: a reason of the condition Progressing, and a sentence.
type Obstacle struct {
	Reason, Message string
	// Final: it does not pass by itself.
	Final bool
}

// Action is what is to be done in the managed cluster.
type Action string

// The values of Action.
const (
	// Nothing is to be done.
	Nothing Action = ""
	// MakePod makes the next pod.
	MakePod Action = "MakePod"
	// DeletePod removes the pod, so that the next one can be made.
	DeletePod Action = "DeletePod"
	// CleanUp removes all that was made in the managed cluster.
	CleanUp Action = "CleanUp"
)

// Outcome is what follows from the facts.
type Outcome struct {
	Action Action
	// Status is the NodeUpgrade's from now on.
	Status upgradev1.NodeUpgradeStatus
	// Again is when to look again; 0: when something changes.
	Again time.Duration
	// Retried: the retry that a person asked for has begun.
	Retried bool
}

// State is how far a NodeUpgrade is, for those who wait for it.
type State string

// The values of State.
const (
	// Waiting: nothing was done to the node yet.
	Waiting State = "Waiting"
	// Active: the upgrader works on the node, or did so and will again.
	Active State = "Active"
	// Complete: the node runs what is wanted.
	Complete State = "Complete"
	// Failed: a person must look.
	Failed State = "Failed"
)

// StateOf returns how far a NodeUpgrade is, by its status, and by its annotations where a move or a restored backup has lost that.
func StateOf(u *upgradev1.NodeUpgrade) State {
	if ptr.Deref(u.Status.Completed, false) || isDone(u) {
		return Complete
	}
	reason := ""
	if c := conditions.Get(u, upgradev1.Progressing); c != nil {
		reason = c.Reason
	}
	switch {
	case reason == "" && hasBegun(u):
		return Active
	case reason == upgradev1.Failed || reason == upgradev1.RolledBack:
		return Failed
	case reason == upgradev1.Running || ptr.Deref(u.Status.Attempts, 0) > 0:
		return Active
	}
	return Waiting
}

// Precedes reports whether one control plane node's upgrade comes before another's: it has begun, or neither has and it is the older one.
// One that a person holds lets others go first.
func Precedes(one, other *upgradev1.NodeUpgrade) bool {
	if one.Spec.NodeType != upgradev1.ControlPlane {
		return false
	}
	switch StateOf(one) {
	case Active:
		return StateOf(other) != Active
	case Waiting:
		c := conditions.Get(one, upgradev1.Progressing)
		held := c != nil && c.Reason == upgradev1.Paused
		older := cmp.Or(one.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(one.Name, other.Name)) < 0
		return !held && older && StateOf(other) != Active
	}
	return false
}

// decision is a decision while it is made: the facts, and the status as it will be.
type decision struct {
	Facts
	// next is the NodeUpgrade with the status as it will be.
	next *upgradev1.NodeUpgrade
}

// Decide says what is to be done next for a NodeUpgrade.
func Decide(f Facts) Outcome {
	d := &decision{Facts: f, next: f.Upgrade.DeepCopy()}
	d.next.Status.ObservedGeneration = f.Upgrade.Generation
	o := d.decide()
	o.Status = d.next.Status
	return o
}

func (d *decision) decide() Outcome {
	switch StateOf(d.Upgrade) {
	case Complete:
		return d.complete()
	case Failed:
		return d.failed()
	case Waiting:
		if d.Pod == nil || d.Unreachable != "" {
			return d.begin()
		}
	}
	switch {
	case d.Unreachable != "":
		return d.silent("the API server does not answer (" + d.Unreachable + ")")
	case d.Pod == nil:
		return d.another(steps.Step{}, "the pod is gone")
	}
	return d.look()
}

// begin makes the first pod, unless something is in its way.
func (d *decision) begin() Outcome {
	o := d.Obstacle
	switch {
	case o.Final:
		return d.fail(o.Reason, "", o.Message)
	case d.Paused:
		return d.wait(upgradev1.Paused, "a person holds it: nothing was begun")
	case o.Reason != "":
		return d.waitFor(o)
	case d.Unreachable != "":
		return d.waitFor(Obstacle{Reason: upgradev1.WaitingForMachine, Message: "the cluster's API server does not answer: " + d.Unreachable})
	}
	d.say(metav1.ConditionTrue, upgradev1.Running, "the upgrader begins"+d.noteDrain())
	return Outcome{Action: MakePod, Again: SoonRunning}
}

// noteDrain notes in the condition of the step why the node is not drained, and returns the same as the end of a sentence; empty: it is
// drained, or need not be.
func (d *decision) noteDrain() string {
	if d.NotDrained == "" {
		return ""
	}
	text := "the node is not drained: " + d.NotDrained
	d.set(metav1.Condition{Type: string(steps.Drain), Status: metav1.ConditionTrue, Reason: upgradev1.Skipped, Message: text})
	return "; " + text
}

// waitFor waits for what is in the way, and gives up when that has been there for long: a user who follows an upgrade must see an end of
// it.
func (d *decision) waitFor(o Obstacle) Outcome {
	_, drain := Drain(d.Upgrade)
	limits := map[string]time.Duration{
		upgradev1.WaitingForImages: imagesTimeout, upgradev1.WaitingForMachine: startTimeout, upgradev1.WaitingForFiles: startTimeout,
		upgradev1.WaitingForUpgrader: startTimeout, upgradev1.WaitingForRoom: drain,
	}
	limit, limited := limits[o.Reason]
	was := conditions.Get(d.Upgrade, upgradev1.Progressing)
	if limited && was != nil && was.Reason == o.Reason && d.Now.Sub(was.LastTransitionTime.Time) > limit {
		return d.fail(upgradev1.Failed, "", fmt.Sprintf("%s, for more than %s; nothing was changed on the node", o.Message, limit))
	}
	return d.wait(o.Reason, o.Message)
}

func (d *decision) wait(reason, message string) Outcome {
	d.say(metav1.ConditionFalse, reason, message)
	return Outcome{Again: SoonWaiting}
}

// failed waits for a person: who deletes the pod, or asks for another try, has the upgrade go on.
func (d *decision) failed() Outcome {
	switch {
	case d.Unreachable != "" || d.Paused:
		return Outcome{Again: SoonFailed}
	case d.Pod != nil:
		return d.failedPod()
	case !d.Retry && ptr.Deref(d.Upgrade.Status.Attempts, 0) == 0:
		return Outcome{} // there never was a pod to delete
	case d.Obstacle.Reason != "":
		return Outcome{Again: SoonWaiting}
	}
	d.next.Status.FailedStep = ""
	d.next.Status.RetriedAttempt = ptr.To(ptr.Deref(d.Upgrade.Status.Attempts, 0) + 1)
	d.say(metav1.ConditionTrue, upgradev1.Running, "the upgrader begins again"+d.noteDrain())
	return Outcome{Action: MakePod, Again: SoonRunning, Retried: true}
}

// failedPod keeps the pod of an upgrade that has failed, which a person may want to see, until another try is requested.
func (d *decision) failedPod() Outcome {
	if d.Retry && d.Pod.DeletionTimestamp.IsZero() {
		return Outcome{Action: DeletePod, Again: SoonRunning}
	}
	return Outcome{Again: SoonFailed}
}

// look follows the pod.
func (d *decision) look() Outcome {
	p := observe(d.Pod)
	d.next.Status.Attempts = ptr.To(max(ptr.Deref(d.Upgrade.Status.Attempts, 0), attemptOf(d.Pod)))
	d.note(p)
	switch {
	case len(p.names) == 0:
		return d.fail(upgradev1.Failed, "", "pod "+d.Pod.Name+" is none of the upgrader's: delete it")
	case p.completed:
		return d.complete()
	case p.result.State == steps.RolledBack:
		return d.fail(upgradev1.RolledBack, p.failed(), ended(p))
	case p.result.State == steps.Failed:
		return d.fail(upgradev1.Failed, p.failed(), ended(p))
	case !d.Pod.DeletionTimestamp.IsZero():
		return d.silent("the pod is being deleted")
	case p.ended:
		return d.another(p.at, cmp.Or(p.why, plaintext.QuoteEnd(p.result.Message, longestMessage), "it was cut off"))
	}
	if limit := p.limit(d.Upgrade); d.Now.Sub(p.since(d.Pod)) > limit {
		return d.late(p, limit)
	}
	d.say(metav1.ConditionTrue, upgradev1.Running, p.says())
	return Outcome{Again: SoonRunning}
}

// late ends a step that took longer than its limit: with another pod, unless none of it has ever run.
func (d *decision) late(p progress, limit time.Duration) Outcome {
	if p.waiting != "" && !begunIn(p) {
		return d.fail(upgradev1.Failed, p.at.Name, fmt.Sprintf("the pod did not start within %s: %s; nothing was changed on the node", limit,
			p.waiting))
	}
	return d.another(p.at, fmt.Sprintf("it did not end within %s", limit))
}

// begunIn reports whether a step of a pod has begun.
func begunIn(p progress) bool {
	return len(p.conditions) > 0 && p.conditions[0].Reason != upgradev1.Pending
}

// ended says how a step ended, and what can be done.
func ended(p progress) string {
	text := fmt.Sprintf("%s ended after %.1f s: %s", p.failed(), p.result.Seconds, cmp.Or(plaintext.QuoteEnd(p.result.Message, longestMessage),
		"it said nothing"))
	if p.result.Advice != "" {
		text += "; " + p.result.Advice
	}
	return text + "; deleting the pod, or `quorate upgrade retry`, tries again"
}

// another has the steps begun again by another pod: they find what was done already. After a few pods that were cut off a person has to
// look.
func (d *decision) another(at steps.Step, why string) Outcome {
	from := max(ptr.Deref(d.next.Status.RetriedAttempt, 1), 1)
	if n := ptr.Deref(d.next.Status.Attempts, 0) - from + 1; n >= MostAttempts {
		return d.fail(upgradev1.Failed, at.Name, fmt.Sprintf("the upgrader was cut off %d times, the last time because: %s; deleting the pod, "+
			"or `quorate upgrade retry`, goes on", n, why))
	}
	switch {
	case d.Pod != nil:
		d.say(metav1.ConditionTrue, upgradev1.Running, fmt.Sprintf("%s: %s; it is begun again", cmp.Or(string(at.Name), "the upgrader"), why))
		return Outcome{Action: DeletePod, Again: SoonRunning}
	case d.Paused:
		return d.wait(upgradev1.Paused, "a person holds it: "+why+", and no other is made")
	case d.Obstacle.Reason != "":
		if d.Obstacle.Final {
			return d.fail(upgradev1.Failed, at.Name, d.Obstacle.Message)
		}
		return d.wait(d.Obstacle.Reason, d.Obstacle.Message)
	}
	d.say(metav1.ConditionTrue, upgradev1.Running, why+": the upgrader begins again"+d.noteDrain())
	return Outcome{Action: MakePod, Again: SoonRunning}
}

// silent goes on waiting for a cluster or kubelet that does not answer: on a single node that is so for seconds. It gives up when the step
// that was under way must be over.
func (d *decision) silent(why string) Outcome {
	since, underway := lastHeard(d.next.Status.Conditions)
	if gone := d.Pod; gone != nil && gone.DeletionTimestamp.After(since) {
		since = gone.DeletionTimestamp.Time
	}
	step, limit := steps.Name(""), startTimeout
	if last := len(underway) - 1; last >= 0 {
		step, limit = underway[last].Name, limitOf(underway, d.Upgrade)
	}
	limit += silentTimeout
	if !since.IsZero() && d.Now.Sub(since) > limit {
		return d.fail(upgradev1.Failed, step, fmt.Sprintf("%s, and nothing was heard of the node for more than %s: see whether it runs; "+
			"deleting the pod, or `quorate upgrade retry`, goes on", why, limit))
	}
	d.say(metav1.ConditionTrue, upgradev1.Running, cmp.Or(string(step), "the upgrader")+": "+why)
	return Outcome{Again: SoonRunning}
}

// lastHeard is when something was last heard of the node, and the steps of which one was under way then; none: none was.
func lastHeard(conditions []metav1.Condition) (since time.Time, underway []steps.Step) {
	for _, c := range conditions {
		if c.LastTransitionTime.After(since) && c.Type != upgradev1.Completed && c.Reason != upgradev1.Pending {
			since = c.LastTransitionTime.Time
		}
		if s, known := steps.ByCommand(steps.Name(c.Type).Command()); known && c.Reason == upgradev1.Running {
			underway = append(underway, s)
		}
	}
	return since, underway
}

// complete notes that the node runs what is wanted.
func (d *decision) complete() Outcome {
	d.next.Status.Completed = ptr.To(true)
	d.next.Status.FailedStep = ""
	d.set(metav1.Condition{Type: upgradev1.Completed, Status: metav1.ConditionTrue, Reason: upgradev1.Done, Message: "the node runs " +
		d.Upgrade.Spec.KubernetesVersion})
	d.say(metav1.ConditionFalse, upgradev1.Done, "")
	return Outcome{Action: CleanUp, Again: SoonWaiting}
}

// fail ends the upgrade until a person has it tried again.
func (d *decision) fail(reason string, step steps.Name, message string) Outcome {
	if reason != upgradev1.RolledBack {
		reason = upgradev1.Failed
	}
	d.next.Status.FailedStep = string(step)
	d.say(metav1.ConditionFalse, reason, message)
	return Outcome{Again: SoonFailed}
}

// say sets the condition Progressing.
func (d *decision) say(status metav1.ConditionStatus, reason, message string) {
	d.set(metav1.Condition{Type: upgradev1.Progressing, Status: status, Reason: reason, Message: message})
	if conditions.Get(d.next, upgradev1.Completed) == nil {
		d.set(metav1.Condition{Type: upgradev1.Completed, Status: metav1.ConditionFalse, Reason: upgradev1.Progressing})
	}
}

// note sets the conditions of the steps. What is not begun by this pod keeps what an earlier one did; that a step found nothing left
// to do says less than when and how long it was done.
func (d *decision) note(p progress) {
	d.next.Status.Steps = p.names
	for _, c := range p.conditions {
		was := conditions.Get(d.Upgrade, c.Type)
		known := was != nil && was.Reason != upgradev1.Pending
		if known && (c.Reason == upgradev1.Pending || c.Reason == upgradev1.Skipped && was.Status == metav1.ConditionTrue) {
			continue
		}
		d.set(c)
	}
}

// set sets a condition, whose time is that of the change of its reason, where it brings none of its own.
func (d *decision) set(c metav1.Condition) {
	c.ObservedGeneration = d.Upgrade.Generation
	list := d.next.Status.Conditions
	for i, was := range list {
		if was.Type != c.Type {
			continue
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = was.LastTransitionTime
			if was.Reason != c.Reason || was.Status != c.Status {
				c.LastTransitionTime = metav1.NewTime(d.Now)
			}
		}
		list[i] = c
		return
	}
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.NewTime(d.Now)
	}
	d.next.Status.Conditions = append(d.next.Status.Conditions, c)
}
