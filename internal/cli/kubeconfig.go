package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/embed"
)

// kubeconfigFolder is the folder of kubeconfigs in the state folder.
const kubeconfigFolder = "kubeconfig"

func (a *app) kubeconfigCommand() *cobra.Command {
	var file string
	var management bool
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME]",
		Short: "Print the kubeconfig of a cluster, or write it to a file",
		Long: `Print the administrator's kubeconfig of a cluster: whoever has it may do everything there.
Written to a file, it can be read by its owner only.`,
		Example: `  quorate kubeconfig demo --write ~/.kube/demo
  KUBECONFIG=<(quorate kubeconfig demo) kubectl get nodes
  quorate kubeconfig --management    # of the management plane: Clusters, Machines and their kin`,
		Args:              oneArgumentAtMost,
		ValidArgsFunction: a.complete(1, a.clusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if management && len(args) > 0 {
				return usagef("NAME (%s) and --management exclude each other", args[0])
			}
			raw, err := a.readKubeconfig(cmd.Context(), args, management)
			if err != nil {
				return err
			}
			if file == "" {
				_, err = a.Out.Write(raw)
				return err
			}
			return writeSecret(file, raw)
		},
	}
	cmd.Flags().StringVarP(&file, "write", "w", "", "write it to this file")
	cmd.Flags().BoolVar(&management, "management", false, "the management plane's")
	return cmd
}

func (a *app) readKubeconfig(ctx context.Context, args []string, management bool) ([]byte, error) {
	if management {
		if _, err := a.loadEnvironment(); err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(embed.KubeconfigPath(a.state))
		if err != nil {
			return nil, fmt.Errorf("reading the management plane's kubeconfig: %w", err)
		}
		return raw, nil
	}
	c, err := a.management()
	if err != nil {
		return nil, err
	}
	key, err := a.choose(ctx, c, args)
	if err != nil {
		return nil, err
	}
	return facts.Kubeconfig(ctx, c, key)
}

// writeKubeconfig keeps a cluster's kubeconfig in the state folder, and returns its path.
func (a *app) writeKubeconfig(ctx context.Context, c client.Client, key client.ObjectKey) (string, error) {
	raw, err := facts.Kubeconfig(ctx, c, key)
	if err != nil {
		return "", err
	}
	path := a.kubeconfigPath(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making a folder for kubeconfigs: %w", err)
	}
	return path, writeSecret(path, raw)
}

func (a *app) kubeconfigPath(key client.ObjectKey) string {
	name := key.Name
	if key.Namespace != "default" {
		name = key.Namespace + "." + key.Name // no name of a cluster has a dot
	}
	return filepath.Join(a.state, kubeconfigFolder, name)
}

// writeSecret replaces a file that only its owner may read, whole or not at all.
func writeSecret(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// oneArgumentAtMost refuses a second argument.
func oneArgumentAtMost(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%q is one argument too many for %q; see %q", args[1], cmd.CommandPath(), cmd.CommandPath()+" --help")
	}
	return nil
}
