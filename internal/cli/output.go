package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is how a command's result is written: table, json or yaml.
type format string

var formats = []string{"table", "json", "yaml"}

// String is the format's name.
func (f *format) String() string { return string(*f) }

// Set accepts a format by its name.
func (f *format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("%s would be accepted", strings.Join(formats, ", "))
	}
	*f = format(s)
	return nil
}

// Type is what help shows.
func (f *format) Type() string { return "format" }

func (f *format) addTo(cmd *cobra.Command) {
	*f = "table"
	cmd.Flags().VarP(f, "output", "o", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return formats, cobra.ShellCompDirectiveNoFileComp
	})
}

// data writes a value as JSON or YAML.
func (a *app) data(f format, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err == nil && f == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	_, err = fmt.Fprintln(a.Out, strings.TrimRight(string(raw), "\n"))
	return err
}
