package access

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [NAME] -- [ARGUMENT...]",
		Short: "Run kubectl against a cluster",
		Long: `Run the kubectl that was built with the machines against a cluster, as its administrator. It ends with kubectl's exit
code. For the management plane use: kubectl --kubeconfig <(quorate kubeconfig --management)`,
		Example: `  quorate kubectl -- get nodes -o wide
  quorate kubectl demo -- -n kube-system get pods`,
		Args: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 || at > 1 {
				return errors.New("what is for kubectl is given after --: quorate kubectl demo -- get nodes")
			}
			return nil
		},
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			c, key, err := a.Cluster(cmd.Context(), args[:at])
			if err != nil {
				return err
			}
			kubeconfig, err := a.WriteKubeconfig(cmd.Context(), c, key)
			if errors.Is(err, facts.ErrNoKubeconfig) {
				return fmt.Errorf("%w: `quorate status %s` shows how far it is", err, key.Name)
			}
			if err != nil {
				return err
			}
			return a.runKubectl(cmd, kubeconfig, args[at:])
		},
	}
}

func (a *app) runKubectl(cmd *cobra.Command, kubeconfig string, args []string) error {
	e, err := a.LoadEnvironment()
	if err != nil {
		return err
	}
	kubectl := exec.CommandContext(cmd.Context(), filepath.Join(e.Artifacts.Management, "kubectl"), args...)
	kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = a.In, a.Out, a.Err
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	err = kubectl.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Exited() {
		return &command.ExitError{Code: ended.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("running kubectl: %w", err)
	}
	return nil
}
