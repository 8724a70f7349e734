package cli

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/artifacts"
	"github.com/quorate/quorate/internal/cli/command"
)

// versions is what `quorate version` says.
type versions struct {
	Quorate    string   `json:"quorate"`
	Revision   string   `json:"revision,omitempty"`
	Go         string   `json:"go"`
	Kubernetes []string `json:"kubernetes"`
}

func (a *app) versionCommand() *cobra.Command {
	var output command.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of quorate, and those of Kubernetes that it can make",
		Example: "  quorate version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := versions{Quorate: "unknown", Kubernetes: artifacts.Versions()}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Quorate, v.Go = info.Main.Version, info.GoVersion
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if output != "table" {
				return a.Data(output, v)
			}
			text := "quorate " + v.Quorate
			if v.Revision != "" {
				text += " (" + v.Revision + ")"
			}
			_, err := fmt.Fprintf(a.Out, "%s, %s\nKubernetes: %s\n", text, v.Go, strings.Join(v.Kubernetes, ", "))
			return err
		},
	}
	output.AddTo(cmd)
	return cmd
}
