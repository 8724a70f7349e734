// Command rulesdoc writes docs/rules.md, the rules for people. It knows where the
// file is to be; what is in it, package plan knows.
package main

import (
	"fmt"
	"os"

	"github.com/quorate/quorate/internal/core/plan"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rulesdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(plan.Document()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
