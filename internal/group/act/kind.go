package act

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Kind is a kind of groups as far as it carries out steps.
type Kind interface {
	Steps() Steps
}

// Steps is what one kind of groups has of its own when steps are carried out. What a kind lacks is nil.
type Steps struct {
	Maker
	// Chores carries out the chores that only this kind knows.
	Chores Performer
	// Records is there where an update in place is noted elsewhere than on the Machine.
	Records Recorder
	// End is there where others may go only when the group says so.
	End TakesDown
	// Seeds is there where the bootstrap provider of a kind cannot have a machine restore a seed.
	Seeds Seeder
}

// Maker makes machines and keeps what belongs to them.
type Maker interface {
	// Bootstrap returns the bootstrap of a machine that is to be made: the object to create, nil where none is, and what its
	// Machine says of it.
	Bootstrap(ctx context.Context, t *observe.View, step plan.Step) (client.Object, clusterv1.Bootstrap, error)
	// Adopt makes the group's own what belongs to a Machine that it adopts, before the Machine itself.
	Adopt(ctx context.Context, t *Writer, m *clusterv1.Machine) error
	// Sync writes what follows the object without a step.
	Sync(ctx context.Context, t *Writer) error
}

// Performer carries out a step that only one kind knows.
type Performer interface {
	Perform(ctx context.Context, t *Writer, step plan.Step) error
}

// Recorder has a machine's bootstrap object, and the Machine itself, after, which is written next, say that it was brought to a goal in
// place.
type Recorder interface {
	Record(ctx context.Context, t *Writer, m *observe.Machine, after *clusterv1.Machine, goal drift.Goal) error
}

// TakesDown sees to the end of others with the Cluster, also while the group itself is being deleted or has machines that it cannot
// adopt.
type TakesDown interface {
	TakeDown(ctx context.Context, t *Writer) error
}
