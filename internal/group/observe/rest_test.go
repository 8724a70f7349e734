package observe

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestQuorumsRest: at rest no connection to a cluster's etcd stays open, and the next question opens another.
func TestQuorumsRest(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	members := etcdtest.Run(t, ca, []string{"m1"})
	m1 := members[0]
	key := client.ObjectKey{Namespace: "default", Name: "demo"}
	q := &quorums{open: map[client.ObjectKey]*etcd.Cluster{key: etcd.Open(ca.Client())}}
	// Connections are closed aside: nobody waits for a member that reads nothing. The first are those of the set-up.
	closed := func() bool {
		return wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
			func(context.Context) (bool, error) { return m1.Open() == 0, nil }) == nil
	}
	for turn := 1; turn <= 2; turn++ {
		if !closed() {
			t.Fatalf("before question %d: %d connections", turn, m1.Open())
		}
		if survey := q.open[key].Survey(t.Context(), members.Targets()); !survey.Known || m1.Open() != 1 {
			t.Fatalf("question %d: %d connections: %s", turn, m1.Open(), etcdtest.Show(survey))
		}
		q.Rest(client.ObjectKey{Namespace: "default", Name: "another"})
		if m1.Open() != 1 {
			t.Errorf("question %d: another cluster's rest ends the connection", turn)
		}
		q.Rest(key)
		if !closed() {
			t.Errorf("at rest after question %d: %d connections", turn, m1.Open())
		}
	}
}
