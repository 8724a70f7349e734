package cli

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/artifacts"
)

// aside is what is not for quorate in a line: a comment, what goes on after a pipe or into a file.
var aside = regexp.MustCompile(`\s+(#|\||>).*$`)

// exampleCommands are the command lines of quorate in examples, each as its arguments.
func exampleCommands(example string) [][]string {
	var all [][]string
	for line := range strings.Lines(example) {
		line = strings.TrimSpace(aside.ReplaceAllString(strings.TrimRight(line, "\n"), ""))
		if _, inner, substituted := strings.Cut(line, "<("); substituted {
			line, _, _ = strings.Cut(inner, ")")
		}
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// Every example in every help text is a command line that quorate takes, and asks for what there is.
func TestExamples(t *testing.T) {
	t.Chdir("../..") // examples name manifests of the repository
	tried := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, words := range exampleCommands(cmd.Example) {
			tried++
			t.Run(strings.Join(words, " "), func(t *testing.T) { tryExample(t, words) })
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp().root())
	if tried < 40 {
		t.Errorf("only %d examples were found", tried)
	}
}

func tryExample(t *testing.T, words []string) {
	if words[0] != "quorate" {
		t.Fatalf("it runs %s", words[0])
	}
	cmd, args, err := newApp().root().Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Fatal(err)
	}
	switch cmd.Name() {
	case "up":
		if out, errors, code := run(t, "", append(slices.Clone(words[1:]), "--dry-run")...); code != command.ExitOK || out == "" {
			t.Errorf("exit code %d, %s", code, errors)
		}
	case "shell":
		at := cmd.ArgsLenAtDash()
		if at < 0 {
			return
		}
		program := cmd.Flags().Args()[at]
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(artifacts.MachinePrograms(), program) {
			t.Errorf("machines have no %s", program)
		}
	}
}
