// Package maintenance is `quorate etcd`: how the members of a cluster's etcd are, what fills them, and requests that the cluster's manager
// carries out as steps of its own.
package maintenance

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/group/observe"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Command is `quorate etcd`.
func Command(i *command.Invocation) *cobra.Command {
	a := &app{i}
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Show and tend the members of a cluster's etcd",
		Long: `Show the members of a cluster's etcd and what fills them, compare their data, and ask the manager to defragment them, to end an
alarm, or to have another one lead. The manager does that as steps of its own, by its rules.`,
		Example: `  quorate etcd status demo
  quorate etcd top demo
  quorate etcd defragment demo`,
	}
	cmd.AddCommand(a.statusCommand(), a.topCommand(), a.compareCommand(), a.defragmentCommand(), a.disarmCommand(), a.moveLeaderCommand())
	return cmd
}

// store is the etcd of one group of a cluster.
type store struct {
	of   *facts.Group
	from *observe.EtcdMembers
	// asks asks the members. Who opened it closes it.
	asks *etcd.Cluster
}

// stores finds the etcds of a cluster: that of its control plane, where that keeps one, and those of its EtcdClusters.
func stores(ctx context.Context, c client.Reader, key client.ObjectKey) ([]store, error) {
	objects, err := facts.Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	groups := objects.EtcdClusters
	if cp := objects.ControlPlane; cp != nil && cp.HoldsQuorum {
		groups = append(groups, cp)
	}
	var found []store
	for _, of := range groups {
		members, err := observe.FindSurvivors(ctx, c, of.Kind, of.Key, false)
		if err != nil {
			return nil, fmt.Errorf("finding the etcd of %s: %w", facts.Title(of), err)
		}
		if members.Facts.Etcd.Ours() {
			found = append(found, store{of, members, etcd.Open(members.Credentials)})
		}
	}
	if len(found) == 0 {
		return nil, command.Usagef("cluster %s has no etcd that Quorate keeps: "+
			"it is external or an operator's, or its control plane is of another kind", key)
	}
	return found, nil
}

// close closes the connections.
func closeAll(all []store) {
	for _, s := range all {
		s.asks.Close()
	}
}

// survey asks all members of an etcd.
func (s store) survey(ctx context.Context) etcd.Survey {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	return s.asks.Survey(ctx, s.from.Targets)
}

// surveyTime is how long the members may take to answer. The first survey opens the connections.
const surveyTime = 10 * time.Second

// machineOf is the machine of a member; empty: none is known for it.
func (s store) machineOf(id uint64) string {
	for _, m := range s.from.Facts.Etcd.Members {
		if m.ID == etcd.FormatID(id) {
			return m.Machine
		}
	}
	return ""
}

// target is how a member is asked, by the name of the target that answered as it.
func (s store) target(at string) (etcd.Target, bool) {
	for _, t := range s.from.Targets {
		if at != "" && t.Name == at {
			return t, true
		}
	}
	return etcd.Target{}, false
}
