package upgrader

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/core/steps"
)

// concluding carries out a step that follows the swap. When it fails, the service of the swap puts the node back.
func (n *node) concluding(ctx context.Context, name steps.Name, do func(context.Context) (string, error)) steps.Result {
	said, err := do(ctx)
	if err == nil {
		return result(said, nil)
	}
	if ctx.Err() != nil {
		// Somebody ended the step, which says nothing of the node: the next pod does it again.
		n.say("%v", err)
		return steps.Result{}
	}
	undone, undoes := n.journal.Undo(name, err.Error())
	if !undoes {
		return result("", err)
	}
	if stays := n.spareMember(ctx); stays != nil {
		r := result("", fmt.Errorf("%w; and it is not undone: %w", err, stays))
		r.Advice = "the node stays at the new version; retry goes on with it"
		return r
	}
	n.say("%s failed, and is undone: %v", name, err)
	return n.undo(ctx, undone)
}

// undo has the service of the swap put the node back. Before there is a service the journal says so: the next attempt goes on with it.
func (n *node) undo(ctx context.Context, undone steps.Journal) steps.Result {
	n.journal = undone
	err := n.saveJournal(n.journal)
	if err == nil {
		err = n.installService(ctx)
	}
	if err == nil {
		err = n.follow(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return steps.Result{}
	case err != nil:
		r := result("", err)
		r.Advice = "the node is being put back; retry goes on with that"
		return r
	}
	return n.outcome()
}

// spareMember makes sure that the node's member of etcd can be stopped: the swap asked the others long ago. A member that does not serve
// anyway takes nothing away, and the only one has no others. An error: the other voters have no quorum.
func (n *node) spareMember(ctx context.Context) error {
	if !n.wanted.HasPeers() {
		return nil
	}
	own, leader, err := n.leadership(ctx)
	if err != nil {
		n.say("%v", err)
		return nil
	}
	if err := eventually(ctx, patienceWithAPI, n.othersServe); err != nil {
		return err
	}
	if own == leader {
		// Without a handover another member is elected: that takes a second longer.
		if _, err := n.moveLeadership(ctx, own); err != nil {
			n.say("%v", err)
		}
	}
	return nil
}
