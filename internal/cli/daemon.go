package cli

import (
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/embed"
)

// daemonCommand is what `quorate up` starts in the background.
func (a *app) daemonCommand() *cobra.Command {
	var verbosity int
	cmd := &cobra.Command{
		Use:    "daemon",
		Short:  "Run the management plane in the foreground",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot(); err != nil {
				return err
			}
			node, err := nodeBinary()
			if err != nil {
				return err
			}
			return embed.Run(cmd.Context(), embed.Options{State: a.state, NodeBinary: node, Verbosity: verbosity, Audit: a.environment("QUORATE_AUDIT") != ""})
		},
	}
	cmd.Flags().IntVarP(&verbosity, "verbosity", "v", 0, "level of detail of the log, 0 to 5")
	return cmd
}
