package group

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestBrokenForGood: a group of which there was no news for long does not count among those in which something goes on.
func TestBrokenForGood(t *testing.T) {
	now := time.Now()
	for news, want := range map[time.Duration]int{time.Minute: 1, time.Hour: 0} {
		c := &Controller{}
		object := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-news))}}
		// It is initialised, and does not answer.
		facts := plan.Observed{Now: now, Group: plan.Group{Initialized: true}}
		turn := turnOf(c, &observe.View{Object: object, Cluster: &clusterv1.Cluster{}, Facts: facts})
		turn.prepare(plan.Decision{Step: plan.Step{Verb: plan.Wait}})
		if got := len(c.Memories.moving); got != want {
			t.Errorf("the newest fact is %s old: %d groups move, want %d", news, got, want)
		}
	}
}

// TestEarly: where something goes on in many groups, news that come just after a look wait for more; what follows a step does not, and
// nothing does in a small crowd.
func TestEarly(t *testing.T) {
	key, now := client.ObjectKey{Name: "a"}, time.Now()
	for name, row := range map[string]struct {
		others  int
		stepped bool
		ago     time.Duration
		want    time.Duration
	}{
		"few":                 {others: crowd - 1},
		"some":                {others: crowd, ago: 10 * time.Millisecond, want: gather - 10*time.Millisecond},
		"many":                {others: 100, want: 4 * gather},
		"many, after a while": {others: 100, ago: 4 * gather},
		"many, after a step":  {others: 100, stepped: true},
	} {
		var m Memories
		for i := range row.others {
			m.Moves(client.ObjectKey{Name: strconv.Itoa(i)}, true)
		}
		if got := m.Early(key, now); got != 0 {
			t.Errorf("%s: %v before the first look", name, got)
		}
		kept := m.all(key)
		kept.past.ended, kept.past.stepped = now.Add(-row.ago), row.stepped
		if got := m.Early(key, now); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
