package status

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
)

func (a *app) explainCommand() *cobra.Command {
	var observed, etcd bool
	var output command.Format
	cmd := &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Show what every rule says about a control plane or an etcd cluster now, with its numbers",
		Long: `Read everything that the next decision depends on, and show what every rule says about it. The first rule
that has something to say decides; those below it show what they would say. With --etcd it is about the cluster's etcd on machines
of its own.

With --observed what the rules looked at comes with it as data: it holds no secrets, and a bug report that has it can be
replayed.`,
		Example: `  quorate explain
  quorate explain demo --etcd                               # of the EtcdCluster, not of the control plane
  quorate explain demo -o json
  quorate explain demo --observed -o json >observed.json    # for a bug report`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if observed && output == "table" {
				if cmd.Flags().Changed("output") {
					return command.Usagef("--observed cannot be combined with --output table: must be json or yaml")
				}
				output = "json"
			}
			return a.explain(cmd.Context(), args, output, etcd, observed)
		},
	}
	cmd.Flags().BoolVar(&observed, "observed", false, "add what the rules looked at")
	cmd.Flags().BoolVar(&etcd, "etcd", false, "explain the cluster's etcd on machines of its own")
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	return cmd
}

// explain shows the verdicts on the control plane, or the etcd cluster, of the cluster that is named, or the only one.
func (a *app) explain(ctx context.Context, args []string, output command.Format, etcd, observed bool) error {
	c, key, err := a.Cluster(ctx, args)
	if err != nil {
		return err
	}
	e, err := facts.Explain(ctx, c, key, etcd)
	if err != nil {
		return err
	}
	if !observed {
		e.Observed = nil
	}
	if output == "table" {
		a.NewScreen().Show(e.Table())
		return nil
	}
	return a.Data(output, e)
}
