// Package access is how people reach a cluster with tools of their own, `quorate kubeconfig` and `quorate kubectl`, with which certificates
// that is secured, `quorate certificates`, and how its etcd is, `quorate etcd`.
package access

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/certificates"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/maintenance"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Commands are `quorate kubeconfig`, `quorate kubectl`, `quorate certificates` and `quorate etcd`.
func Commands(i *command.Invocation) []*cobra.Command {
	a := &app{i}
	return []*cobra.Command{a.kubeconfigCommand(), a.kubectlCommand(), certificates.Command(i), maintenance.Command(i)}
}

func (a *app) kubeconfigCommand() *cobra.Command {
	var file string
	var management bool
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME]",
		Short: "Print the kubeconfig of a cluster, or write it to a file",
		Long: `Print the administrator's kubeconfig of a cluster. It gives all rights there.
Written to a file, it can be read by its owner only.`,
		Example: `  quorate kubeconfig demo --write ~/.kube/demo
  KUBECONFIG=<(quorate kubeconfig demo) kubectl get nodes
  quorate kubeconfig --management    # of the management plane: Clusters, Machines and their kin`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if management && len(args) > 0 {
				return command.Usagef("NAME (%s) cannot be combined with --management", args[0])
			}
			raw, err := a.readKubeconfig(cmd.Context(), args, management)
			if err != nil {
				return err
			}
			if file == "" {
				_, err = a.Out.Write(raw)
				return err
			}
			return atomicfile.Write(file, raw, 0o600)
		},
	}
	cmd.Flags().StringVarP(&file, "write", "w", "", "write it to this file")
	cmd.Flags().BoolVar(&management, "management", false, "the management plane's")
	return cmd
}

func (a *app) readKubeconfig(ctx context.Context, args []string, management bool) ([]byte, error) {
	if management {
		if _, err := a.LoadEnvironment(); err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(embed.KubeconfigPath(a.State))
		if err != nil {
			return nil, fmt.Errorf("reading the management plane's kubeconfig: %w", err)
		}
		return raw, nil
	}
	c, key, err := a.Cluster(ctx, args)
	if err != nil {
		return nil, err
	}
	return facts.Kubeconfig(ctx, c, key)
}
