// Package status is what shows how clusters are: `quorate status`, why, `quorate explain`, how they will
// be, `quorate plan`, what was done, `quorate history`, all of that in a browser, `quorate dashboard`, or in a file, `quorate report`,
// what they were made from, `quorate export`, and from what they can be recovered, `quorate backup`.
package status

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/backups"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard"
	"github.com/quorate/quorate/internal/cli/export"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/power"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Commands are `quorate status`, `quorate explain`, `quorate plan`, `quorate history`, `quorate dashboard`, `quorate report`,
// `quorate export`, `quorate backup`, and those that let a cluster rest or come back.
func Commands(i *command.Invocation) []*cobra.Command {
	a := &app{i}
	return slices.Concat([]*cobra.Command{
		a.statusCommand(), a.explainCommand(), a.planCommand(), a.historyCommand(), export.Command(i), backups.Command(i),
	}, dashboard.Commands(i), power.Commands(i))
}

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var output command.Format
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show a cluster: machines, etcd's quorum, what happens next and why",
		Long: `Show a cluster as a tree. It has the control plane with the next step and why it is the next, and each machine with
what it waits for. Then follow the members of etcd (^ marks the leader) with how many failures their quorum can stand, and the workers.
Without a name, all clusters are shown.`,
		Example: `  quorate status
  quorate status demo --watch
  quorate status demo -o json | jq .etcd.canStand
  quorate status demo --context management                  # in a management cluster of your own`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch && output != "table" {
				return command.Usagef("--watch cannot be combined with --output %s", output)
			}
			if watch {
				return a.watchStatus(cmd.Context(), args)
			}
			clusters, err := a.readStatus(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.printStatus(output, args, clusters)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "redraw it until interrupted")
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	return cmd
}

// readStatus reads the cluster that is named, or all.
func (a *app) readStatus(ctx context.Context, args []string) ([]report.Cluster, error) {
	c, err := a.Management()
	if err != nil {
		return nil, err
	}
	h, err := a.OwnMachines()
	if err != nil {
		return nil, err
	}
	keys, err := clustersNamed(ctx, c, args)
	if err != nil {
		return nil, err
	}
	clusters := make([]report.Cluster, 0, len(keys))
	for _, key := range keys {
		seen, err := facts.See(ctx, c, h, key)
		if errors.Is(err, facts.ErrNoCluster) {
			continue // it went meanwhile
		}
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, facts.Describe(facts.WithObserved(ctx, c, seen)))
	}
	return clusters, nil
}

// clustersNamed is the cluster that is named, or all.
func clustersNamed(ctx context.Context, c client.Client, args []string) ([]client.ObjectKey, error) {
	keys, err := command.Clusters(ctx, c)
	if err != nil || len(args) == 0 {
		return keys, err
	}
	key, err := facts.Choose(args[0], keys)
	if err != nil {
		return nil, command.Usage(err)
	}
	return []client.ObjectKey{key}, nil
}

// printStatus writes one object for a name, and a list of all without one.
func (a *app) printStatus(output command.Format, args []string, clusters []report.Cluster) error {
	switch {
	case output == "table":
		a.NewScreen().Show(trees(clusters))
		return nil
	case len(args) > 0 && len(clusters) == 1:
		return a.Data(output, clusters[0])
	}
	return a.Data(output, clusters)
}

func trees(clusters []report.Cluster) []screen.Line {
	if len(clusters) == 0 {
		return []screen.Line{screen.Text("there is no cluster; `quorate up` makes one")}
	}
	var lines []screen.Line
	for i, c := range clusters {
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		lines = append(lines, c.Tree()...)
	}
	return lines
}

// watchStatus redraws until ctx ends. What cannot be read now may be readable later: it is shown and tried again.
func (a *app) watchStatus(ctx context.Context, args []string) error {
	if _, err := a.readStatus(ctx, args); err != nil {
		return err
	}
	s := a.NewScreen()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		clusters, err := a.readStatus(ctx, args)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.Show([]screen.Line{{{Text: err.Error(), Colour: screen.Bad}}})
		default:
			s.Show(trees(clusters))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}
