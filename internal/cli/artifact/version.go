package artifact

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/program/buildinfo"
)

// versions is what `quorate version` says.
type versions struct {
	Quorate    string   `json:"quorate"`
	Revision   string   `json:"revision,omitempty"`
	Date       string   `json:"date,omitempty"`
	Go         string   `json:"go"`
	Kubernetes []string `json:"kubernetes"`
}

// VersionCommand is `quorate version`.
func VersionCommand(a *command.Invocation) *cobra.Command {
	var output command.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of quorate, and those of Kubernetes that it can make",
		Example: "  quorate version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			build := buildinfo.Get()
			v := versions{Quorate: build.Version, Revision: build.Revision, Date: build.Date, Go: build.Go, Kubernetes: artifacts.Versions()}
			if output != "table" {
				return a.Data(output, v)
			}
			_, err := fmt.Fprintf(a.Out, "%s\nKubernetes: %s\n", build.Line("quorate"), strings.Join(v.Kubernetes, ", "))
			return err
		},
	}
	output.AddTo(cmd)
	return cmd
}
