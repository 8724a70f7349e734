package up

import (
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/embed"
)

// DaemonCommand is what `quorate up` starts in the background.
func DaemonCommand(a *command.Invocation) *cobra.Command {
	var verbosity int
	cmd := &cobra.Command{
		Use:    "daemon",
		Short:  "Run the management plane in the foreground",
		Hidden: true,
		Args:   command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.NeedRoot(); err != nil {
				return err
			}
			node, err := command.NodeBinary()
			if err != nil {
				return err
			}
			return embed.Run(cmd.Context(), embed.Options{State: a.State, NodeBinary: node, Verbosity: verbosity,
				Audit: a.Environment("QUORATE_AUDIT") != ""})
		},
	}
	cmd.Flags().IntVarP(&verbosity, "verbosity", "v", 0, "level of detail of the log, 0 to 5")
	return cmd
}
