// Package certificates is `quorate certificates`: which certificates and keys a cluster has, until when they are valid and what renews
// them.
package certificates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/certificates/look"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// app is the commands of this package.
type app struct {
	*command.Invocation
	// managerNamespace is where the manager's ConfigMap with upgrader images is.
	managerNamespace string
}

// Command is `quorate certificates`.
func Command(i *command.Invocation) *cobra.Command {
	a := &app{Invocation: i}
	cmd := &cobra.Command{
		Use:     "certificates",
		Short:   "List the certificates and keys of a cluster, their ends and what renews them",
		Long:    `List the certificates and keys of a cluster, their ends and what renews them. Only public parts are printed.`,
		Example: `  quorate certificates list demo`,
	}
	cmd.AddCommand(a.listCommand())
	return cmd
}

// listFlags are what `quorate certificates list` may be given.
type listFlags struct {
	all, wide, nodes bool
	output           command.Format
}

func (a *app) listCommand() *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List the certificates and keys of a cluster, the first to expire first",
		Long: `List the certificates and keys of a cluster, the first to expire first. They are read from the secrets of the management
cluster, and from the handshakes of API servers, etcd members and kubelets. RENEWED BY says what renews a certificate before it ends: the
kubelet, an upgrade of the machine in place, a replacement of the machine, Quorate's manager, or nobody. What could not be looked at
follows the table.

With --nodes the files of each node are read too, by a pod of the upgrader's image in kube-system that mounts the node's files read-only,
prints public parts, and is deleted.`,
		Example: `  quorate certificates list demo
  quorate certificates list demo --wide                     # keys, names and fingerprints too
  quorate certificates list demo --nodes                    # the files of the nodes too
  quorate certificates list --all                           # of all clusters
  quorate certificates list demo -o json | jq '.certificates[] | select(.warnings)'
  quorate certificates list demo --context management       # in a management cluster of your own`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return command.Usagef("--all cannot be combined with NAME")
			case f.wide && f.output != "table":
				return command.Usagef("--wide cannot be combined with --output %s, which has everything", f.output)
			}
			return a.list(cmd.Context(), f, args)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "list those of all clusters")
	cmd.Flags().BoolVar(&f.wide, "wide", false, "list keys too, and names, kinds of keys and fingerprints")
	cmd.Flags().BoolVar(&f.nodes, "nodes", false, "read the files of the nodes too, by a pod on each")
	cmd.Flags().StringVar(&a.managerNamespace, "manager-namespace", "quorate-system",
		"namespace of the manager, whose ConfigMap quorate-upgrader-images names the images of the pods of --nodes")
	a.AddManagementTo(cmd)
	f.output.AddTo(cmd)
	return cmd
}

func (a *app) list(ctx context.Context, f *listFlags, args []string) error {
	c, keys, err := a.clusters(ctx, f.all, args)
	if err != nil {
		return err
	}
	all, err := reportsOf(ctx, c, keys, a.images(f))
	switch {
	case err != nil:
		return err
	case f.output == "table":
		a.NewScreen().Show(tables(all, f.wide, time.Now()))
		return nil
	case f.all:
		return a.Data(f.output, all)
	}
	return a.Data(f.output, all[0])
}

// images finds the images of the pods that look at nodes; nil: none is to look.
func (a *app) images(f *listFlags) *upgraders.Images {
	if !f.nodes {
		return nil
	}
	images := &upgraders.Images{Namespace: a.managerNamespace}
	if a.IsOwnManagement() {
		images.Default = artifacts.UpgraderImage + ":%s"
	}
	return images
}

// clusters are all clusters, or the one that is named, or the only one.
func (a *app) clusters(ctx context.Context, all bool, args []string) (client.Client, []client.ObjectKey, error) {
	if all {
		c, err := a.Management()
		if err != nil {
			return nil, nil, err
		}
		keys, err := command.Clusters(ctx, c)
		return c, keys, err
	}
	c, key, err := a.Cluster(ctx, args)
	return c, []client.ObjectKey{key}, err
}

// clustersAtOnce is how many clusters are looked at at the same time.
const clustersAtOnce = 8

// reportsOf looks at clusters. One that went meanwhile is left out, unless it is the only one.
func reportsOf(ctx context.Context, c client.Client, keys []client.ObjectKey, images *upgraders.Images) ([]look.Report, error) {
	found := make([]*look.Report, len(keys))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(clustersAtOnce)
	for i, key := range keys {
		all.Go(func() error {
			r, err := look.At(ctx, c, key, images)
			if errors.Is(err, facts.ErrNoCluster) && len(keys) > 1 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("looking at cluster %s: %w", key, err)
			}
			found[i] = &r
			return nil
		})
	}
	err := all.Wait()
	reports := []look.Report{}
	for _, r := range found {
		if r != nil {
			reports = append(reports, *r)
		}
	}
	return reports, err
}
