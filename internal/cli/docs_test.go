package cli

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/test/docs"
)

// Every command line of quorate in the documents is one that it takes. In a sentence a command may be named without its arguments.
func TestDocuments(t *testing.T) {
	t.Chdir("../..")
	all, err := docs.Commands(".")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, c := range all {
		if c.Program() != "quorate" || strings.HasSuffix(c.Text, "COMMAND --help") {
			continue
		}
		tried++
		for _, words := range exampleCommands(strings.Join(c.Words(), " ")) {
			cmd, args, err := newApp().root().Find(words[1:])
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err == nil && !c.Inline {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil && !strings.Contains(c.Text, "|") {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
	if tried < 80 {
		t.Errorf("only %d commands were found", tried)
	}
}
