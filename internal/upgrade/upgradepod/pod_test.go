package upgradepod

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

// TestPod: the pod runs the steps on its node whatever the node is tainted with, and nothing of it is restarted.
func TestPod(t *testing.T) {
	u := upgradeOf("", 0)
	u.Spec.FirstNodeToBeUpgraded, u.Spec.VerifyTimeoutSeconds = ptr.To(true), ptr.To(int32(60))
	u.Spec.Kubelet = upgradev1.NodeUpgradeKubelet{ExtraArgs: []upgradev1.KubeletArgument{{Name: "v", Value: ptr.To("4")}},
		RemovedArgs: []string{"max-pods"}}
	wanted := Wanted(u, Environment{Node: "n1", StackedEtcd: true, Brings: steps.Brings{Containerd: "v2.4.2"}}, 3)
	list, err := steps.List(steps.Node{KubeletVersion: "v1.35.4", Runtime: "containerd://2.4.2"}, wanted)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := Pod(u, wanted, list, "example.com/upgrader:1")
	if err != nil {
		t.Fatal(err)
	}
	spec := pod.Spec
	if spec.NodeName != "n1" || !spec.HostPID || !spec.HostNetwork || spec.RestartPolicy != corev1.RestartPolicyNever ||
		spec.PriorityClassName != "system-node-critical" ||
		len(spec.Tolerations) != 1 || spec.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) ||
		*spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" {
		t.Errorf("%+v", spec)
	}
	var names []string
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		last := len(c.Args) - 1
		for _, step := range stepsOf(c) {
			if string(step.Stage) != c.Name {
				t.Errorf("%s carries out %s", c.Name, step.Name)
			}
		}
		names = append(names, c.Args[:last]...)
		text, ok := strings.CutPrefix(c.Args[last], "--spec=")
		var got steps.Wanted
		if err := json.Unmarshal([]byte(text), &got); err != nil || !ok || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s is told %s: %v", c.Name, text, err)
		}
		if !*c.SecurityContext.Privileged || c.Image != "example.com/upgrader:1" || c.ImagePullPolicy != corev1.PullIfNotPresent ||
			c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
			t.Errorf("%+v", c)
		}
	}
	if got := strings.Join(names, " "); got != "copy images render backup handover swap finish verify" || len(spec.Containers) != 1 ||
		len(spec.InitContainers) != 2 {
		t.Errorf("the steps are %s", got)
	}
	if !reflect.DeepEqual(wanted, steps.Wanted{
		ID: "uid", Attempt: 3, Node: "n1", Pod: Name(u), Type: steps.ControlPlane, KubernetesVersion: "v1.36.3", First: true, StackedEtcd: true,
		VerifyTimeoutSeconds: 60,
		Brings:               steps.Brings{Containerd: "v2.4.2"},
		Kubelet:              steps.KubeletArguments{ExtraArgs: []steps.Argument{{Name: "v", Value: "4"}}, RemovedArgs: []string{"max-pods"}},
	}) {
		t.Errorf("%+v", wanted)
	}
	if attemptOf(pod) != 3 {
		t.Errorf("attempt %d", attemptOf(pod))
	}
	if _, err := Pod(u, wanted, nil, ""); err == nil {
		t.Error("a pod without steps is no pod")
	}
}

// TestNoCredentials: no container of a pod has a credential for the API, whatever the upgrade does: not one that drains either.
func TestNoCredentials(t *testing.T) {
	for _, kind := range []upgradev1.NodeType{upgradev1.ControlPlane, upgradev1.Worker} {
		u := upgradeOf("", 0)
		u.Spec.NodeType, u.Spec.Drain.Policy = kind, upgradev1.DrainRequired
		wanted := Wanted(u, Environment{Node: "n1", Files: []steps.File{{Path: "/a"}}}, 1)
		list, err := steps.List(steps.Node{}, wanted)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := Pod(u, wanted, list, "i")
		if err != nil || !wanted.Drains() {
			t.Fatalf("%+v, %v", wanted, err)
		}
		if pod.Spec.ServiceAccountName != "" || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: %+v", kind, pod.Spec)
		}
		for _, v := range pod.Spec.Volumes {
			if v.Secret == nil || v.Secret.SecretName != Name(u) {
				t.Errorf("%s: %+v", kind, v)
			}
		}
	}
	u := upgradeOf("", 0)
	u.Spec.NodeType = upgradev1.Worker
	if wanted := Wanted(u, Environment{Node: "n1"}, 1); wanted.Drain != steps.DrainBestEffort {
		t.Errorf("a worker is drained by default: %q", wanted.Drain)
	}
}

// TestFiles: what files are to hold is in a secret that only the stage in which they are staged sees, and in nothing else.
func TestFiles(t *testing.T) {
	u := upgradeOf("", 0)
	wanted := Wanted(u, Environment{Node: "n1", Files: []steps.File{{Path: "/a", Owner: "me", Permissions: "0600"}, {Path: "/b"}}}, 1)
	list, err := steps.List(steps.Node{}, wanted)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := Pod(u, wanted, list, "i")
	if err != nil {
		t.Fatal(err)
	}
	held := Files(u, [][]byte{[]byte("hunter0"), []byte("hunter1")})
	if held.Name != Name(u) || held.Namespace != pod.Namespace || !*held.Immutable || len(held.Data) != 2 ||
		string(held.Data[steps.FileKey(1)]) != "hunter1" {
		t.Errorf("%+v", held)
	}
	if v := pod.Spec.Volumes; len(v) != 1 || v[0].Secret.SecretName != held.Name || *v[0].Secret.DefaultMode != 0o400 {
		t.Errorf("%+v", v)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if (len(c.VolumeMounts) == 1) != (c.Name == "prepare") || len(c.VolumeMounts) == 1 && (c.VolumeMounts[0].MountPath != steps.FilesDir ||
			!c.VolumeMounts[0].ReadOnly || c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name) {
			t.Errorf("%s: %+v", c.Name, c.VolumeMounts)
		}
	}
	wanted.Files = nil
	if pod, err := Pod(u, wanted, list, "i"); err != nil || len(pod.Spec.Volumes) > 0 || Files(u, nil) != nil {
		t.Errorf("without files: %+v, %v", pod, err)
	}
}

// TestLongDrain: a pod may take as long as the longest drain and verification together.
func TestLongDrain(t *testing.T) {
	u := upgradeOf("", 0)
	wanted := Wanted(u, Environment{Node: "n1"}, 1)
	wanted.DrainTimeoutSeconds, wanted.VerifyTimeoutSeconds = 1<<31-1, 3600
	list, err := steps.List(steps.Node{KubeletVersion: "v1.35.4"}, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if pod, err := Pod(u, wanted, list, "i"); err != nil || *pod.Spec.ActiveDeadlineSeconds != deadline+1<<31-1+7200 {
		t.Errorf("%+v, %v", pod.Spec.ActiveDeadlineSeconds, err)
	}
}

// TestName: a pod's name is also its host name, and names that are cut stay different.
func TestName(t *testing.T) {
	u := upgradeOf("", 0)
	if got := Name(u); got != "quorate-upgrade-cp-1-abc" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		u.Name = strings.Repeat("x", 200) + end
		if got := Name(u); len(got) != 63 || seen[got] {
			t.Errorf("%s: %d", got, len(got))
		}
		seen[Name(u)] = true
	}
}
