// Command quorate makes highly available Kubernetes control planes on one
// host, shows how they are, and is the daemon that keeps them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv)
	stop()
	os.Exit(code)
}
