package machine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// TestMaxLearners: what etcd's static pods say of how many learners they take, in each way in which it can be said.
func TestMaxLearners(t *testing.T) {
	for _, env := range []struct {
		variable corev1.EnvVar
		want     int
	}{
		{corev1.EnvVar{Name: "ETCD_MAX_LEARNERS", Value: "2"}, 2},
		{corev1.EnvVar{Name: "ETCD_EXPERIMENTAL_MAX_LEARNERS", Value: "3"}, 3},
		{corev1.EnvVar{Name: "ETCD_MAX_LEARNERS", Value: "many"}, 1 << 30},
		{corev1.EnvVar{Name: "ETCD_MAX_LEARNERS", ValueFrom: &corev1.EnvVarSource{}}, 1 << 30},
		{corev1.EnvVar{Name: "ETCD_MAX_LEARNERS"}, 0},
		{corev1.EnvVar{Name: "ETCD_NAME", Value: "2"}, 0},
		{corev1.EnvVar{Name: "ETCD_CONFIG_FILE", Value: "/etc/kubernetes/etcd.yaml"}, 1 << 30},
		{corev1.EnvVar{Name: "ETCD_CONFIG_FILE"}, 0},
	} {
		container := corev1.Container{Name: "etcd", Command: []string{"etcd"}, Env: []corev1.EnvVar{env.variable}}
		if got := machine.MaxLearners([]corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}}); got != env.want {
			t.Errorf("%+v: %d, want %d", env.variable, got, env.want)
		}
	}
	for _, one := range []struct {
		name    string
		command []string
		want    int
	}{
		{"etcd", nil, 0},
		{"etcd", []string{"etcd", "--name=demo-cp-1"}, 0},
		{"etcd", []string{"etcd", "--max-learners=2", "--name=demo-cp-1"}, 2},
		{"etcd", []string{"etcd", "-max-learners=2"}, 2},
		{"etcd", []string{"etcd", "--max-learners", "3"}, 3},
		{"etcd", []string{"etcd", "--max-learners"}, 0},
		{"etcd", []string{"etcd", "--experimental-max-learners=4"}, 4},
		{"etcd", []string{"etcd", "--experimental-max-learners=4", "--max-learners=2"}, 4},
		{"etcd", []string{"etcd", "--max-learners=many"}, 1 << 30},
		{"etcd", []string{"etcd", "--config-file=/etc/kubernetes/etcd.yaml"}, 1 << 30},
		{"etcd", []string{"etcd", "-config-file", "/etc/kubernetes/etcd.yaml", "--max-learners=1"}, 1 << 30},
		{"other", []string{"etcd", "--max-learners=2"}, 0},
	} {
		pods := []corev1.Pod{{}, {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: one.name, Command: one.command}}}}}
		if got := machine.MaxLearners(pods); got != one.want {
			t.Errorf("%s %q: %d, want %d", one.name, one.command, got, one.want)
		}
	}
}
