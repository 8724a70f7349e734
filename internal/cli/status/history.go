package status

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
)

func (a *app) historyCommand() *cobra.Command {
	var etcd bool
	var limit int
	var output command.Format
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what was done to a control plane or an etcd cluster: when, why, how long it took, and who changed its spec",
		Long: `Show the last 50 steps that were taken, the newest last, each with its reason, what became of it and how long it took until its
effect was there. That is a created machine complete, a deleted one gone, an update in place recorded. Between them stands who changed
the spec: the field manager, which Kubernetes records, not the user. With --etcd it is about the cluster's etcd on machines of
its own.`,
		Example: `  quorate history
  quorate history demo --limit 10
  quorate history demo --etcd                               # of the EtcdCluster, not of the control plane
  quorate history demo -o json | jq '.entries[] | select(.outcome == "failed")'`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return command.Usagef("invalid --limit \"%d\": must be 0 or more", limit)
			}
			return a.history(cmd.Context(), args, output, etcd, limit)
		},
	}
	cmd.Flags().BoolVar(&etcd, "etcd", false, "show the history of the cluster's etcd on machines of its own")
	cmd.Flags().IntVar(&limit, "limit", 0, "show only so many entries, the newest; 0 shows all")
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	return cmd
}

// history shows what was done to the control plane, or the etcd cluster, of the cluster that is named, or the only one.
func (a *app) history(ctx context.Context, args []string, output command.Format, etcd bool, limit int) error {
	c, key, err := a.Cluster(ctx, args)
	if err != nil {
		return err
	}
	h, err := facts.History(ctx, c, key, etcd)
	if err != nil {
		return err
	}
	h = h.Newest(limit)
	if output == "table" {
		a.NewScreen().Show(h.Table(time.Local))
		return nil
	}
	return a.Data(output, h)
}
