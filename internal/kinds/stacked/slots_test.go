package stacked

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// slotWatch is a world with one slot, which sees whether a turn has it.
type slotWatch struct {
	*world
	asked map[string]int
}

// outside is called where a turn waits for the managed cluster or its etcd.
func (s *slotWatch) outside(what string) {
	s.asked[what]++
	if n := len(s.r.Slots); n != 0 {
		s.t.Errorf("%s: %d slots are taken while the managed cluster is waited for", what, n)
	}
}

// inside is called where a turn writes into the management cluster.
func (s *slotWatch) inside(what string) {
	s.asked[what]++
	if n := len(s.r.Slots); n != 1 {
		s.t.Errorf("%s: %d slots are taken while the management cluster is written to, want the turn's", what, n)
	}
}

func (s *slotWatch) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return s, nil }

func (s *slotWatch) Initialised(ctx context.Context, c *clusterv1.Cluster, tokens bool) (string, error) {
	s.outside("Initialised")
	return s.world.Initialised(ctx, c, tokens)
}

func (s *slotWatch) Behind(ctx context.Context, c *clusterv1.Cluster, want kubeadm.Wanted) (kubeadm.Behind, error) {
	s.outside("Behind")
	return s.world.Behind(ctx, c, want)
}

func (s *slotWatch) Write(ctx context.Context, c *clusterv1.Cluster, want kubeadm.Wanted, chore string) error {
	s.outside("Write")
	return s.world.Write(ctx, c, want, chore)
}

func (s *slotWatch) NewToken(ctx context.Context, c *clusterv1.Cluster) (string, error) {
	s.outside("NewToken")
	return s.world.NewToken(ctx, c)
}

func (s *slotWatch) DropTokens(ctx context.Context, c *clusterv1.Cluster, ids map[string]bool) error {
	s.outside("DropTokens")
	return s.world.DropTokens(ctx, c, ids)
}

func (s *slotWatch) MoveLeader(ctx context.Context, targets []etcd.Target, to uint64) error {
	s.outside("MoveLeader")
	return s.world.MoveLeader(ctx, targets, to)
}

func (s *slotWatch) AddPlaceholder(ctx context.Context, targets []etcd.Target) error {
	s.outside("AddPlaceholder")
	return s.world.AddPlaceholder(ctx, targets)
}

func (s *slotWatch) RemoveMember(ctx context.Context, targets []etcd.Target, id uint64) error {
	s.outside("RemoveMember")
	return s.world.RemoveMember(ctx, targets, id)
}

func (s *slotWatch) EnableDowngrade(context.Context, []etcd.Target, string) error {
	s.outside("EnableDowngrade")
	return nil
}

func (s *slotWatch) CancelDowngrade(context.Context, []etcd.Target) error {
	s.outside("CancelDowngrade")
	return nil
}

// TestTurnsHaveSlots: a turn has its slot while it works in the management cluster, and none while it waits for others, in a whole life.
func TestTurnsHaveSlots(t *testing.T) {
	s := &slotWatch{newWorld(t, testCluster(), testKCP(3)), map[string]int{}}
	s.intercept(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			s.inside("Create")
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			s.inside("Delete")
			return c.Delete(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			s.inside("Patch")
			return c.Patch(ctx, o, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			s.inside("Patch of status")
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	})
	s.r.Slots, s.r.Quorums, s.r.Kubeadm = observe.NewSlots(1), s, s

	s.settle()
	s.join("demo-cp-1")
	s.settle()
	s.init, s.permissions = true, "nodes/proxy"
	s.settle()
	s.join("demo-cp-2")
	s.join("demo-cp-3")
	s.forgetEtcd()
	s.settle()
	s.scale(1)
	s.shrink(2)
	if p := s.settle(); p.Step != string(plan.Nothing) {
		t.Fatalf("the life ends with %+v", p)
	}
	for _, what := range []string{"Initialised", "Behind", "Write", "MoveLeader", "RemoveMember", "Create", "Delete", "Patch",
		"Patch of status"} {
		if s.asked[what] == 0 {
			t.Errorf("%s was not seen: this shows nothing", what)
		}
	}
	if n := len(s.r.Slots); n != 0 {
		t.Errorf("%d slots are taken by nobody", n)
	}
}

// TestSurveysHaveNoSlot: a turn that waits for a survey has no slot meanwhile.
func TestSurveysHaveNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Slots = observe.NewSlots(1)
		w.forgetEtcd()
		var taken []int
		w.onSurvey = func(int) {
			time.Sleep(time.Millisecond) // the turn waits by then
			taken = append(taken, len(w.r.Slots))
		}
		w.settle()
		if len(taken) == 0 || slices.Max(taken) != 0 {
			t.Errorf("slots taken while etcd is surveyed: %v", taken)
		}
	})
}
