package upgrader

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// awaitOthers waits, before the swap begins, until others can do without the node's member of etcd. What has begun is seen to its end.
func (n *node) awaitOthers(ctx context.Context) error {
	if n.journal.Begun() || !n.wanted.HasPeers() {
		return nil
	}
	return eventually(ctx, patienceWithAPI, n.othersServe)
}

// othersServe returns an error unless the voters of other nodes have the quorum without the node's own member, which the swap stops. They
// were healthy when the upgrade was decided, which may be many minutes ago. The only voter has no others.
func (n *node) othersServe(ctx context.Context) error {
	own, _, err := n.leadership(ctx)
	if err != nil {
		return err
	}
	members, err := n.members(ctx)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(members, func(m member) bool { return m.ID == own || m.IsLearner })
	var silent []error
	for _, m := range others {
		if _, err := n.etcdctlTo(ctx, m.ClientURLs, "endpoint", "health"); err != nil {
			silent = append(silent, fmt.Errorf("%s: %w", m.Name, err))
		}
	}
	answer, quorum := len(others)-len(silent), (len(others)+1)/2+1
	if len(others) > 0 && answer < quorum {
		return fmt.Errorf("stopping the node's member of etcd: %d of the %d other voters answer, and the quorum is %d: %w", answer, len(others),
			quorum, errors.Join(silent...))
	}
	return nil
}
