package machine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/machine"
)

// TestMaxLearners: what etcd's static pods say of how many learners they take, in each way in which it can be said.
func TestMaxLearners(t *testing.T) {
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
		{"other", []string{"etcd", "--max-learners=2"}, 0},
	} {
		pods := []corev1.Pod{{}, {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: one.name, Command: one.command}}}}}
		if got := machine.MaxLearners(pods); got != one.want {
			t.Errorf("%s %q: %d, want %d", one.name, one.command, got, one.want)
		}
	}
}
