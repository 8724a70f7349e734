package cli

import (
	"bytes"
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
	raw = escaped(raw)
	if err == nil && f == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	_, err = fmt.Fprintln(a.Out, strings.TrimRight(string(raw), "\n"))
	return err
}

// escaped writes the control characters that JSON's encoder leaves as they are: terminals act on them.
func escaped(encoded []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(encoded) {
		if isC1(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.Bytes()
}

func isC1(r rune) bool { return r >= 0x7f && r <= 0x9f }
