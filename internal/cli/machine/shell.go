package machine

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/sandbox"
)

func (a *app) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shell MACHINE [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell in a machine, or run a command there",
		Long: `Open a shell in a machine, as root and in all its namespaces, or run a command there. It ends with the exit code of
what it ran. On a machine of a control plane kubectl asks its cluster and etcdctl its own member, without flags; ctr shows the
kubelet's containers. What is printed is passed on as it is, also what a terminal acts on.`,
		Example: `  quorate shell demo-cp-1
  quorate shell demo-cp-1 -- etcdctl member list -w table
  quorate shell demo-cp-1 -- ctr -n k8s.io containers list
  quorate shell demo-cp-1 -- kubectl get nodes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.LeastArguments(1, "MACHINE")(cmd, args)
			}
			if at := cmd.ArgsLenAtDash(); len(args) > 1 && at != 1 {
				return fmt.Errorf("a command is given after --: quorate shell %s -- %s", args[0], args[1])
			}
			return nil
		},
		ValidArgsFunction: a.Complete(1, a.MachineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.shell(cmd.Context(), args[0], args[1:])
		},
	}
}

// shell runs a command in a machine; without one, a login shell.
func (a *app) shell(ctx context.Context, machine string, argv []string) error {
	h, err := a.findMachines([]string{machine})
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		argv = []string{"/bin/bash", "-l"}
	}
	in, inIs := command.FileOf(a.In)
	out, outIs := command.FileOf(a.Out)
	stdio := sandbox.Stdio{In: a.In, Out: a.Out, Err: a.Err}
	stdio.TTY = inIs && outIs && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
	code, err := h.Exec(ctx, machine, argv, stdio)
	if err != nil {
		return fmt.Errorf("running %s in %s: %w", argv[0], machine, err)
	}
	if code != 0 {
		return &command.ExitError{Code: code}
	}
	return nil
}
