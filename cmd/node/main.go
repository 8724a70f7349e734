// Command quorate-node is what runs on local machines: their first process, systemctl inside them, and the
// load balancer in front of their API servers. It is kept small, since it runs once in every machine.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/buildinfo"
)

// commands maps the first argument to what it does with those that follow; the result is the exit code.
var commands = map[string]func(args []string) int{
	"launch":    guest.Launch,
	"init":      guest.Init,
	"run":       func([]string) int { return guest.Run() },
	"enter":     guest.Enter,
	"become":    guest.Become,
	"systemctl": guest.Systemctl,
	"endpoint":  endpoint,
}

func main() {
	if name := filepath.Base(os.Args[0]); name == "systemctl" {
		os.Exit(commands[name](os.Args[1:]))
	}
	if len(os.Args) > 1 {
		if os.Args[1] == "--version" {
			fmt.Println(buildinfo.Get().Line("quorate-node"))
			return
		}
		if run, ok := commands[os.Args[1]]; ok {
			os.Exit(run(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "quorate-node is started by quorate, not by hand")
	os.Exit(2)
}
