package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Format is how a command's result is written: table, json or yaml.
type Format string

// Formats are the names of all.
var Formats = []string{"table", "json", "yaml"}

// String is the Format's name.
func (f *Format) String() string { return string(*f) }

// Set accepts a format by its name.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats, s) {
		return fmt.Errorf("must be %s", strings.Join(Formats, ", "))
	}
	*f = Format(s)
	return nil
}

// Type is what help shows.
func (f *Format) Type() string { return "format" }

// AddTo gives a command the flag --output, a table by default.
func (f *Format) AddTo(cmd *cobra.Command) {
	*f = "table"
	cmd.Flags().VarP(f, "output", "o", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return Formats, cobra.ShellCompDirectiveNoFileComp
	})
}

// Data writes a value as JSON or YAML.
func (a *Invocation) Data(f Format, v any) error {
	text, err := Encode(f, v)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

// Encode returns a value as JSON or YAML, with one line break at its end.
func Encode(f Format, v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	raw = escaped(raw)
	if err == nil && f == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return append(bytes.TrimRight(raw, "\n"), '\n'), nil
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

// WithV writes a version as Kubernetes does: v1.36.3.
func WithV(version string) string {
	if version != "" && version[0] >= '0' && version[0] <= '9' {
		return "v" + version
	}
	return version
}
