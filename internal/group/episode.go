package group

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// episode is a rollout or a repair, which lasts until all is as wanted: longer than the condition that tells of its
// beginning. The zero value: none goes on.
type episode struct{ began time.Time }

// follow takes in the condition that is True while the episode's cause is there, and returns how long the episode took when it
// is over; false: it is not, or none went on. The condition's time is on record: a restart of this process meanwhile does not change it.
func (e *episode) follow(cause *metav1.Condition, asWanted bool, now time.Time) (took time.Duration, over bool) {
	if cause != nil && cause.Status == metav1.ConditionTrue {
		if e.began.IsZero() {
			e.began = cause.LastTransitionTime.Time
		}
		return 0, false
	}
	if e.began.IsZero() || !asWanted {
		return 0, false
	}
	took = max(now.Sub(e.began), 0)
	e.began = time.Time{}
	return took, true
}

// followEpisodes observes how long rollouts and repairs take, whose conditions an object has. One whose cause was gone when
// this process first looked is not observed.
func (t *Turn) followEpisodes(object observe.Object, d plan.Decision) {
	asWanted := d.Step.Verb == plan.Nothing
	rolls := conditions.Get(object, upstream.KubeadmControlPlaneRollingOutCondition)
	if took, over := t.past.rollout.follow(rolls, asWanted, t.Facts.Now); over {
		t.metrics().Rollout(took)
	}
	repairs := conditions.Get(object, upstream.KubeadmControlPlaneRemediatingCondition)
	if took, over := t.past.repair.follow(repairs, asWanted, t.Facts.Now); over {
		t.metrics().Repair(took)
	}
}
