package group

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/plan"
)

// TestBrokenForGood: a group of which there was no news for long does not count among those in which something goes on.
func TestBrokenForGood(t *testing.T) {
	now := time.Now()
	for news, want := range map[time.Duration]int{time.Minute: 1, time.Hour: 0} {
		c := &Controller{}
		object := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-news))}}
		// It is initialised, and does not answer.
		facts := plan.Observed{Now: now, Group: plan.Group{Initialized: true}}
		turn := &Turn{Controller: c, Object: object, Memory: &Memory{}, Observation: &Observation{Cluster: &clusterv1.Cluster{}, Facts: facts}}
		turn.prepare(plan.Decision{Step: plan.Step{Verb: plan.Wait}})
		if got := len(c.Memories.moving); got != want {
			t.Errorf("the newest fact is %s old: %d groups move, want %d", news, got, want)
		}
	}
}
