package machine

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/core/plan"
)

// pod is a running and ready static pod of node n, changed.
func pod(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}}
	p.Spec.NodeName = "n"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionFalse},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if change != nil {
		change(&p)
	}
	return p
}

func TestComponents(t *testing.T) {
	all := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	pods := []corev1.Pod{
		pod("kube-apiserver-n", nil), pod("kube-scheduler-n", nil), pod("etcd-n", nil), pod("kube-proxy-n", nil),
		pod("kube-controller-manager-other", nil),
		pod("kube-controller-manager-n", func(p *corev1.Pod) { p.Namespace = "default" }),
		pod("kube-controller-manager-n", func(p *corev1.Pod) { p.Spec.NodeName = "other" }),
	}
	got := Components("n", pods, all)
	want := []plan.Component{
		{Name: "etcd", Health: plan.Healthy},
		{Name: "kube-apiserver", Health: plan.Healthy},
		{Name: "kube-controller-manager", Health: plan.Unknown, Why: "there is no pod kube-controller-manager-n"},
		{Name: "kube-scheduler", Health: plan.Healthy},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
	if external := Components("n", pods, all[1:]); len(external) != 3 || external[0].Name != "kube-apiserver" {
		t.Errorf("with external etcd: %+v", external)
	}
	for _, c := range Components("", append(pods, pod("etcd-", func(p *corev1.Pod) { p.Spec.NodeName = "" })), all) {
		if c.Health != plan.Unknown || c.Why == "" {
			t.Errorf("without a Node: %+v", c)
		}
	}
}

func TestComponent(t *testing.T) {
	notReady := func(p *corev1.Pod) {
		p.Status.Conditions[1].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0].Ready = false
	}
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   plan.Health
		why    string
	}{
		{"ready", nil, plan.Healthy, ""},
		{"on its way out", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, plan.Unhealthy, "being deleted"},
		{"probe fails", notReady, plan.Unhealthy, "probe does not succeed"},
		{"without conditions", func(p *corev1.Pod) { p.Status.Conditions = nil }, plan.Unhealthy, ""},
		{"ready but not running", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, plan.Unhealthy, "the pod is Failed"},
		{"kubelet silent", func(p *corev1.Pod) {
			p.Status.Conditions[1].Status = corev1.ConditionUnknown
		}, plan.Unknown, "the kubelet does not report"},
		{"crashing", func(p *corev1.Pod) {
			notReady(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
				Message: "back-off 40s"}}
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error",
				Message: "bind: address in use"}
		}, plan.Unhealthy, "CrashLoopBackOff: back-off 40s; ended with code 1 (Error): bind: address in use"},
		{"ended", func(p *corev1.Pod) {
			notReady(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
				Reason: "OOMKilled"}}
		}, plan.Unhealthy, "ended with code 137 (OOMKilled)"},
		{"starting", func(p *corev1.Pod) {
			notReady(p)
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = nil
			p.Status.Conditions[1].Reason, p.Status.Conditions[1].Message = "ContainersNotReady", "not yet"
		}, plan.Unhealthy, "ContainersNotReady: not yet"},
		{"evicted", func(p *corev1.Pod) {
			notReady(p)
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "disk full"
			p.Status.ContainerStatuses = nil
		}, plan.Unhealthy, "Evicted: disk full"},
		{"image missing", func(p *corev1.Pod) {
			notReady(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
		}, plan.Unhealthy, "ErrImagePull"},
		{"very long words", func(p *corev1.Pod) {
			notReady(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "X",
				Message: strings.Repeat("é", 999) + "the end"}}
		}, plan.Unhealthy, "the end"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := pod("etcd-n", test.change)
			c := component("etcd", &p)
			if c.Health != test.want || !strings.Contains(c.Why, test.why) || (c.Health == plan.Healthy) != (c.Why == "") {
				t.Errorf("got %q because %q, want %q because %q", c.Health, c.Why, test.want, test.why)
			}
			if len(c.Why) > 400 || !utf8.ValidString(c.Why) {
				t.Errorf("%d bytes: %q", len(c.Why), c.Why)
			}
		})
	}
}

// TestAnswered: what somebody else found out counts until the kubelet's probes have their turn, and only for what runs since before.
func TestAnswered(t *testing.T) {
	at := now
	starting := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		p.Status.Conditions[1].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0].Ready, p.Status.ContainerStatuses[0].Started = false, ptr.To(false)
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at.Add(-5 * time.Second))
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		at     time.Time
		ago    time.Duration
		want   plan.Health
	}{
		"it answered": {nil, at, time.Second, plan.Healthy},
		"it was started in that second": {
			func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at) }, at, time.Second, plan.Healthy},
		"the kubelet does not say that it started": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = nil }, at, time.Second,
			plan.Healthy},
		"nobody asked":      {nil, time.Time{}, 0, plan.Unhealthy},
		"that was long ago": {nil, at, startupTurn + time.Second, plan.Unhealthy},
		"it was started since": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at.Add(time.Second))
		}, at, time.Second, plan.Unhealthy},
		"nobody knows when it was started": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{} }, at,
			time.Second, plan.Unhealthy},
		"its startup probe had its turn": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = ptr.To(true) }, at, time.Second,
			plan.Unhealthy},
		"it does not run": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil }, at, time.Second, plan.Unhealthy},
		"not all of it is known": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"}) }, at,
			time.Second, plan.Unhealthy},
		"it is not running":     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, at, time.Second, plan.Unhealthy},
		"it goes":               {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at} }, at, time.Second, plan.Unhealthy},
		"the kubelet is silent": {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionUnknown }, at, time.Second, plan.Unknown},
	} {
		pods := []corev1.Pod{pod("etcd-other", nil), pod("etcd-n", func(p *corev1.Pod) {
			starting(p)
			if test.change != nil {
				test.change(p)
			}
		})}
		got := Components("n", pods, []string{"etcd", "kube-scheduler"})
		Answered(got, "n", pods, test.at, test.ago)
		if got[0].Health != test.want || (got[0].Why == "") != (test.want == plan.Healthy) || got[1].Health != plan.Unknown {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}
