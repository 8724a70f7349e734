package workload

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodKeepsLearners: of a static pod's command and variables is kept what they say of etcd's learners, and nothing else: commands may
// have secrets.
func TestPodKeepsLearners(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Command: []string{
		"etcd", "--name=cp-1", "--experimental-max-learners=2", "--max-learners", "3", "--password=secret", "--config-file=/a",
	}, Env: []corev1.EnvVar{{Name: "ETCD_MAX_LEARNERS", Value: "4"}, {Name: "ETCD_CONFIG_FILE", Value: "/a"},
		{Name: "PASSWORD", Value: "secret"}}}}}}
	trimPod(p)
	if got := p.Spec.Containers[0].Command; !slices.Equal(got, []string{"--experimental-max-learners=2", "--max-learners", "3",
		"--config-file=/a"}) {
		t.Errorf("kept %q", got)
	}
	if got := p.Spec.Containers[0].Env; len(got) != 2 || got[1].Name != "ETCD_CONFIG_FILE" || got[0].Name != "ETCD_MAX_LEARNERS" ||
		got[0].Value != "4" {
		t.Errorf("kept the variables %v", got)
	}
}
