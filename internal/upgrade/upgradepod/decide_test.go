package upgradepod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// upgradeOf returns a NodeUpgrade; empty reason: nothing was decided yet.
func upgradeOf(reason string, attempts int32) *upgradev1.NodeUpgrade {
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-1-abc", Namespace: "default", UID: "uid", Generation: 1},
		Spec:       upgradev1.NodeUpgradeSpec{KubernetesVersion: "v1.36.3", NodeType: upgradev1.ControlPlane},
	}
	if reason != "" {
		conditions.Set(u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionUnknown, Reason: reason,
			LastTransitionTime: ago(time.Minute)})
	}
	if attempts > 0 {
		u.Status.Attempts = ptr.To(attempts)
	}
	return u
}

// podOf returns the pod of an attempt on a single node, whose steps are as the text says, the first ones first: d done, s skipped, r
// running, f failed, b rolled back, k killed, x could not be started, w waiting with a reason; those that are not named have not begun.
func podOf(t *testing.T, attempt int32, phase corev1.PodPhase, text string) *corev1.Pod {
	t.Helper()
	u := upgradeOf("", 0)
	wanted := Wanted(u, Environment{Node: "n1", SingleNode: true, StackedEtcd: true}, attempt)
	list, err := steps.List(steps.Node{KubeletVersion: "v1.35.4"}, wanted)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := Pod(u, wanted, list, "quorate.io/upgrader:v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	pod.CreationTimestamp = ago(30 * time.Second)
	pod.Status.Phase = phase
	stages := steps.Stages(list)
	for i, stage := range stages {
		letters := text[:min(len(stage), len(text))]
		text = text[len(letters):]
		status := corev1.ContainerStatus{Name: string(stage[0].Stage), State: stateOf(t, stage, letters)}
		if i < len(stages)-1 {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		} else {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		}
	}
	return pod
}

// stateOf is the state of a stage's container whose steps are as the letters say. While it runs nothing is known of them.
func stateOf(t *testing.T, stage []steps.Step, letters string) corev1.ContainerState {
	t.Helper()
	ended := &corev1.ContainerStateTerminated{StartedAt: ago(10 * time.Second), FinishedAt: ago(5 * time.Second)}
	for i, letter := range letters {
		result := steps.Result{Step: stage[i].Name, Seconds: 1.5, Message: "its output"}
		switch letter {
		case 'r':
			return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(10 * time.Second)}}
		case 'w':
			return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}
		case 'd':
			result.State = steps.Done
		case 's':
			result.State = steps.Skipped
		case 'f':
			result.State, result.Advice = steps.Failed, "look there"
		case 'b':
			result.State = steps.RolledBack
		case 'x':
			ended.Message, ended.ExitCode = ended.Message+"exec /upgrader: no such file\n", 1
			return corev1.ContainerState{Terminated: ended}
		case 'k':
			ended.ExitCode = 137
			return corev1.ContainerState{Terminated: ended}
		}
		line, err := result.Line()
		if err != nil {
			t.Fatal(err)
		}
		ended.Message, ended.ExitCode = ended.Message+line+"\n", int32(result.State.ExitCode())
	}
	if letters == "" {
		return corev1.ContainerState{}
	}
	return corev1.ContainerState{Terminated: ended}
}

// TestDecide: what is done about a NodeUpgrade, and what its condition Progressing says.
func TestDecide(t *testing.T) {
	running, failed := corev1.PodRunning, corev1.PodFailed
	for name, test := range map[string]struct {
		facts   Facts
		action  Action
		reason  string
		message string // a part of it
		again   bool   // it is looked at again by itself
	}{
		"new":         {Facts{Upgrade: upgradeOf("", 0)}, MakePod, upgradev1.Running, "begins", true},
		"new, paused": {Facts{Upgrade: upgradeOf("", 0), Paused: true}, Nothing, upgradev1.Paused, "a person holds it", true},
		"new, waiting": {Facts{Upgrade: upgradeOf("", 0), Obstacle: Obstacle{Reason: upgradev1.WaitingForNode, Message: "cp-2 first"}}, Nothing,
			upgradev1.WaitingForNode, "cp-2 first", true},
		"new, API away": {
			Facts{Upgrade: upgradeOf("", 0), Unreachable: "refused"}, Nothing, upgradev1.WaitingForMachine, "does not answer: refused", true,
		},
		"waiting for images": {
			Facts{Upgrade: waitingFor(upgradev1.WaitingForImages, imagesTimeout-time.Second),
				Obstacle: Obstacle{Reason: upgradev1.WaitingForImages}},
			Nothing, upgradev1.WaitingForImages, "", true,
		},
		"waiting for images for too long": {
			Facts{Upgrade: waitingFor(upgradev1.WaitingForImages, imagesTimeout+time.Second), Obstacle: Obstacle{Reason: upgradev1.WaitingForImages,
				Message: "pulling"}},
			Nothing, upgradev1.Failed, "pulling, for more than", true,
		},
		"another node may take its time": {
			Facts{Upgrade: waitingFor(upgradev1.WaitingForNode, 100*time.Hour), Obstacle: Obstacle{Reason: upgradev1.WaitingForNode}},
			Nothing, upgradev1.WaitingForNode, "", true,
		},
		"impossible": {
			Facts{Upgrade: upgradeOf("", 0), Obstacle: Obstacle{Reason: upgradev1.Failed, Message: "two minors", Final: true}}, Nothing,
			upgradev1.Failed, "two minors", true,
		},
		"impossible, never had a pod": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 0)}, Nothing, upgradev1.Failed, "", false},

		"running": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, running, "r")}, Nothing, upgradev1.Running,
			"Copy, Images, Render, Backup: prepares", true},
		"running, paused": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Paused: true, Pod: podOf(t, 1, running, "ddddr")}, Nothing,
			upgradev1.Running, "Swap: hands over", true},
		"image not there": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, corev1.PodPending, "w")}, Nothing,
			upgradev1.Running, "Copy, Images, Render, Backup: ErrImagePull: no such image", true},
		"image never there": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: older(podOf(t, 1, corev1.PodPending, "w"), time.Hour)},
			Nothing, upgradev1.Failed, "did not start within 10m0s: ErrImagePull", true},
		"all done": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, corev1.PodSucceeded, "ddddddd")}, CleanUp,
			upgradev1.Done, "", true},
		"all done, some were": {Facts{Upgrade: upgradeOf(upgradev1.Running, 2), Pod: podOf(t, 2, running, "sssssds")},
			CleanUp, upgradev1.Done, "", true},
		"the last one ended, the pod does not say so": {Facts{Upgrade: upgradeOf(upgradev1.Running, 2),
			Pod: podOf(t, 2, corev1.PodPending, "ssssssd")}, CleanUp, upgradev1.Done, "", true},
		"failed": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "ddf")}, Nothing, upgradev1.Failed,
			"Render ended after 1.5 s: its output; look there; deleting the pod", true},
		"rolled back": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "ddddb")}, Nothing, upgradev1.RolledBack,
			"Swap ended", true},
		"killed": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "ddddk")}, DeletePod, upgradev1.Running,
			"Swap: it was cut off; it is begun again", true},
		"cannot begin": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "x")}, DeletePod, upgradev1.Running,
			"Copy: exec /upgrader: no such file; it is begun again", true},
		"killed, not over": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, running, "ddddk")}, Nothing, upgradev1.Running,
			"Swap", true},
		"killed 4 times": {Facts{Upgrade: upgradeOf(upgradev1.Running, 4), Pod: podOf(t, 4, failed, "ddddk")}, DeletePod, upgradev1.Running,
			"Swap", true},
		"killed 5 times": {Facts{Upgrade: upgradeOf(upgradev1.Running, 5), Pod: podOf(t, 5, failed, "ddddk")}, Nothing, upgradev1.Failed,
			"cut off 5 times", true},
		"killed 5 times, tried again since": {
			Facts{Upgrade: retried(upgradeOf(upgradev1.Running, 6), 4), Pod: podOf(t, 6, failed, "ddddk")}, DeletePod, upgradev1.Running, "Swap",
			true,
		},
		"the status is lost, the pod knows": {Facts{Upgrade: upgradeOf("", 0), Pod: podOf(t, 5, failed, "ddddk")}, Nothing, upgradev1.Failed,
			"cut off 5 times", true},
		"hangs": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1),
			Pod: hanging(podOf(t, 1, running, "r"), 61*time.Minute)}, DeletePod, upgradev1.Running, "did not end within 1h0m0s", true},
		"hangs 5 times": {Facts{Upgrade: upgradeOf(upgradev1.Running, 5),
			Pod: hanging(podOf(t, 5, running, "r"), 61*time.Minute)}, Nothing, upgradev1.Failed, "did not end within", true},
		"slow images": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1),
			Pod: hanging(podOf(t, 1, running, "r"), 59*time.Minute)}, Nothing, upgradev1.Running, "Images", true},
		"slow images before": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1),
			Pod: older(podOf(t, 1, running, "ddddr"), 20*time.Minute)}, Nothing, upgradev1.Running, "Swap", true},
		"hangs in the exchange": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1),
			Pod: hanging(podOf(t, 1, running, "ddddr"), 8*time.Minute)}, DeletePod, upgradev1.Running, "Swap: it did not end within 7m0s", true},
		"killed between two": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "dddddk")}, DeletePod,
			upgradev1.Running, "Finish: it was cut off; it is begun again", true},
		"killed after the first of two": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: podOf(t, 1, failed, "ddddddk")}, DeletePod,
			upgradev1.Running, "Verify: it was cut off; it is begun again", true},
		"the pod is gone": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1)}, MakePod, upgradev1.Running, "the pod is gone", true},
		"the pod is gone, paused": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Paused: true}, Nothing, upgradev1.Paused, "no other is made",
			true},
		"the pod goes": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Pod: going(podOf(t, 1, failed, "ddddk"), time.Second)}, Nothing,
			upgradev1.Running, "is being deleted", true},
		"the pod does not go": {Facts{Upgrade: waitingSince(upgradeOf(upgradev1.Running, 1)),
			Pod: going(hanging(podOf(t, 1, failed, "ddddk"), time.Hour), time.Hour)}, Nothing, upgradev1.Failed, "nothing was heard", true},
		"the Machine goes meanwhile": {
			Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Obstacle: Obstacle{Reason: upgradev1.Failed, Message: "Machine cp-1 is being deleted",
				Final: true}}, Nothing, upgradev1.Failed, "being deleted", true,
		},
		"API away, as on a single node": {Facts{Upgrade: upgradeOf(upgradev1.Running, 1), Unreachable: "refused"}, Nothing, upgradev1.Running,
			"does not answer (refused)", true},
		"API away for long": {Facts{Upgrade: silentFor(upgradeOf(upgradev1.Running, 1), steps.Swap, 10*time.Minute),
			Unreachable: "refused"}, Nothing, upgradev1.Failed, "nothing was heard of the node for more than 9m0s", true},
		"API away, not yet for long": {Facts{Upgrade: silentFor(upgradeOf(upgradev1.Running, 1), steps.Swap, 8*time.Minute),
			Unreachable: "refused"}, Nothing, upgradev1.Running, "Swap: the API server", true},

		"failed, the pod is there": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Pod: podOf(t, 1, failed, "f")}, Nothing,
			upgradev1.Failed, "", true},
		"failed, the pod was deleted": {Facts{Upgrade: upgradeOf(upgradev1.RolledBack, 1)}, MakePod, upgradev1.Running, "begins again", true},
		"failed, API away": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Unreachable: "refused"}, Nothing, upgradev1.Failed, "",
			true},
		"failed, deleted, paused": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Paused: true}, Nothing, upgradev1.Failed, "", true},
		"failed, deleted, not alone": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Obstacle: Obstacle{Reason: upgradev1.WaitingForNode}},
			Nothing, upgradev1.Failed, "", true},
		"failed, retry": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Retry: true, Pod: podOf(t, 1, failed, "f")}, DeletePod,
			upgradev1.Failed, "", true},
		"failed, retry, the pod goes": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Retry: true,
			Pod: going(podOf(t, 1, failed, "f"), time.Second)}, Nothing, upgradev1.Failed, "", true},
		"failed, retry, the pod went": {Facts{Upgrade: upgradeOf(upgradev1.Failed, 1), Retry: true}, MakePod, upgradev1.Running, "", true},
		"impossible, retry":           {Facts{Upgrade: upgradeOf(upgradev1.Failed, 0), Retry: true}, MakePod, upgradev1.Running, "", true},
		"a pod that is somebody else's": {Facts{Upgrade: upgradeOf("", 0), Pod: &corev1.Pod{}}, Nothing, upgradev1.Failed,
			"none of the upgrader's", true},
	} {
		test.facts.Now = now
		before := test.facts.Upgrade.DeepCopy()
		o := Decide(test.facts)
		after := before.DeepCopy()
		after.Status = o.Status
		c := conditions.Get(after, upgradev1.Progressing)
		if c == nil || o.Action != test.action || c.Reason != test.reason || !strings.Contains(c.Message, test.message) ||
			(o.Again > 0) != test.again {
			t.Errorf("%s: %q, again %s, %+v", name, o.Action, o.Again, c)
			continue
		}
		if done := ptr.Deref(o.Status.Completed, false); done != (test.reason == upgradev1.Done) ||
			done != conditions.IsTrue(after, upgradev1.Completed) {
			t.Errorf("%s: completed is %t: %+v", name, done, o.Status)
		}
		if !conditionsEqual(before, test.facts.Upgrade) {
			t.Errorf("%s: the decision changed its facts", name)
		}
	}
}

func conditionsEqual(a, b *upgradev1.NodeUpgrade) bool {
	if len(a.Status.Conditions) != len(b.Status.Conditions) {
		return false
	}
	for i := range a.Status.Conditions {
		if a.Status.Conditions[i] != b.Status.Conditions[i] {
			return false
		}
	}
	return true
}

func waitingFor(reason string, since time.Duration) *upgradev1.NodeUpgrade {
	u := upgradeOf(reason, 0)
	u.Status.Conditions[0].LastTransitionTime = ago(since)
	return u
}

// waitingSince has been as it is for hours.
func waitingSince(u *upgradev1.NodeUpgrade) *upgradev1.NodeUpgrade {
	for i := range u.Status.Conditions {
		u.Status.Conditions[i].LastTransitionTime = ago(5 * time.Hour)
	}
	return u
}

func silentFor(u *upgradev1.NodeUpgrade, step steps.Name, since time.Duration) *upgradev1.NodeUpgrade {
	u.Status.Conditions[0].LastTransitionTime = ago(since)
	u.Status.Conditions = append(u.Status.Conditions, metav1.Condition{Type: string(step), Reason: upgradev1.Running,
		LastTransitionTime: ago(since)})
	return u
}

func retried(u *upgradev1.NodeUpgrade, attempt int32) *upgradev1.NodeUpgrade {
	u.Status.RetriedAttempt = ptr.To(attempt)
	return u
}

func older(pod *corev1.Pod, by time.Duration) *corev1.Pod {
	pod.CreationTimestamp = ago(by)
	return pod
}

func going(pod *corev1.Pod, since time.Duration) *corev1.Pod {
	pod.DeletionTimestamp = ptr.To(ago(since))
	return pod
}

// hanging has what runs in a pod have begun so long ago.
func hanging(pod *corev1.Pod, since time.Duration) *corev1.Pod {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.State.Running != nil {
			s.State.Running.StartedAt = ago(since)
		}
		if s.State.Terminated != nil {
			s.State.Terminated.StartedAt, s.State.Terminated.FinishedAt = ago(since+5*time.Second), ago(since)
		}
	}
	return older(pod, since)
}

// TestSeries walks through an upgrade that is cut off, goes on, fails, and is tried again: what each look leaves is what the next one
// begins with.
func TestSeries(t *testing.T) {
	u := upgradeOf("", 0)
	look := func(pod *corev1.Pod, retry bool, want Action, state State) {
		t.Helper()
		o := Decide(Facts{Now: now, Upgrade: u, Pod: pod, Retry: retry})
		u = u.DeepCopy()
		u.Status = o.Status
		if o.Action != want || StateOf(u) != state {
			t.Fatalf("%q, %s: %+v", o.Action, StateOf(u), u.Status)
		}
	}
	condition := func(step steps.Name) metav1.Condition {
		t.Helper()
		c := conditions.Get(u, string(step))
		if c == nil {
			t.Fatalf("nothing is said of %s: %+v", step, u.Status.Conditions)
		}
		return *c
	}
	look(nil, false, MakePod, Active)
	look(podOf(t, 1, corev1.PodPending, "ddk"), false, Nothing, Active)
	if c := condition(steps.Render); c.Reason != upgradev1.Interrupted || !strings.Contains(c.Message, "exit code 137") {
		t.Errorf("%+v", c)
	}
	look(podOf(t, 1, corev1.PodFailed, "ddk"), false, DeletePod, Active)
	look(nil, false, MakePod, Active)
	if c := condition(steps.Backup); c.Reason != upgradev1.Interrupted {
		t.Errorf("who was cut off may have come further than is known: %+v", c)
	}
	look(podOf(t, 2, corev1.PodPending, "ssk"), false, Nothing, Active)
	if c := condition(steps.Copy); c.Reason != upgradev1.Done || !strings.Contains(c.Message, "took 1.5 s:\nits output") ||
		!c.LastTransitionTime.Equal(ptr.To(ago(8500*time.Millisecond))) {
		t.Errorf("what the first pod did is forgotten: %+v", c)
	}
	look(podOf(t, 2, corev1.PodPending, "ssssr"), false, Nothing, Active)
	if c := condition(steps.Swap); c.Reason != upgradev1.Running {
		t.Errorf("%+v", c)
	}
	if c := condition(steps.Verify); c.Reason != upgradev1.Pending || c.Status != metav1.ConditionUnknown {
		t.Errorf("%+v", c)
	}
	look(podOf(t, 2, corev1.PodFailed, "sssdb"), false, Nothing, Failed)
	if u.Status.FailedStep != string(steps.Swap) || len(u.Status.Steps) != 7 {
		t.Errorf("%+v", u.Status)
	}
	look(podOf(t, 2, corev1.PodFailed, "sssdb"), true, DeletePod, Failed)
	look(nil, true, MakePod, Active)
	if u.Status.FailedStep != "" || ptr.Deref(u.Status.RetriedAttempt, 0) != 3 {
		t.Errorf("%+v", u.Status)
	}
	look(podOf(t, 3, corev1.PodRunning, "ssssdds"), false, CleanUp, Complete)
	if got := ptr.Deref(u.Status.Attempts, 0); got != 3 {
		t.Errorf("%d attempts", got)
	}
	look(nil, false, CleanUp, Complete)
}

// TestPrecedes: at most one of two control plane nodes begins, whichever looks first, unless both have.
func TestPrecedes(t *testing.T) {
	old, young := upgradeOf("", 0), upgradeOf("", 0)
	old.CreationTimestamp, young.CreationTimestamp = ago(time.Minute), ago(time.Second)
	old.Name, young.Name = "b", "a"
	twin := upgradeOf("", 0)
	twin.CreationTimestamp, twin.Name = old.CreationTimestamp, "c"
	active := upgradeOf(upgradev1.Running, 0)
	active.CreationTimestamp = ago(0)
	failed, done := upgradeOf(upgradev1.Failed, 1), upgradeOf(upgradev1.Done, 1)
	done.Status.Completed = ptr.To(true)
	worker := upgradeOf(upgradev1.Running, 1)
	worker.Spec.NodeType = upgradev1.Worker
	for name, test := range map[string]struct {
		one, other *upgradev1.NodeUpgrade
		want       bool
	}{
		"the older one":            {old, young, true},
		"the younger one":          {young, old, false},
		"as old, by name":          {old, twin, true},
		"as old, by name, reverse": {twin, old, false},
		"one that has begun":       {active, old, true},
		"one that has not":         {old, active, false},
		"one that failed":          {failed, young, false},
		"one that is done":         {done, young, false},
		"one that is held":         {waitingFor(upgradev1.Paused, time.Minute), young, false},
		"a worker":                 {worker, young, false},
	} {
		if got := Precedes(test.one, test.other); got != test.want {
			t.Errorf("%s precedes: %t", name, got)
		}
	}
}

// TestUndone: when a step after the swap has the node put back, the swap's condition says so too, and still does when the next attempt
// fails before it.
func TestUndone(t *testing.T) {
	u := upgradeOf(upgradev1.Running, 1)
	for attempt, text := range []string{"dddddb", "f"} {
		o := Decide(Facts{Now: now, Upgrade: u, Pod: podOf(t, int32(attempt)+1, corev1.PodFailed, text)})
		u = u.DeepCopy()
		u.Status = o.Status
		c := conditions.Get(u, string(steps.Swap))
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != upgradev1.RolledBack ||
			!strings.Contains(c.Message, "because of Finish") {
			t.Errorf("attempt %d: %+v", attempt+1, c)
		}
		if finish := conditions.Get(u, string(steps.Finish)); attempt == 0 && finish.Reason != upgradev1.RolledBack {
			t.Errorf("%+v", finish)
		}
		conditions.Set(u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionTrue, Reason: upgradev1.Running})
	}
}

// TestFailedStep: the step that failed is the one that the result names, whichever saw its undoing to the end.
func TestFailedStep(t *testing.T) {
	pod := podOf(t, 2, corev1.PodFailed, "ssssb")
	line, err := steps.Result{Step: steps.Swap, State: steps.RolledBack, Message: "it is not ready", FailedStep: steps.Verify}.Line()
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.InitContainerStatuses[1].State.Terminated.Message = line
	o := Decide(Facts{Now: now, Upgrade: upgradeOf(upgradev1.Running, 2), Pod: pod})
	c := conditions.Get(&upgradev1.NodeUpgrade{Status: o.Status}, upgradev1.Progressing)
	if o.Status.FailedStep != string(steps.Verify) || c.Reason != upgradev1.RolledBack || !strings.HasPrefix(c.Message, "Verify ended") {
		t.Errorf("%s, %+v", o.Status.FailedStep, c)
	}
}
