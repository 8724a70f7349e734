// Command upgrader carries out the steps of an upgrade in place, in a privileged pod on the node and as a service of the node. It is the
// entry point of the upgrader's image.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/internal/upgrade/upgrader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := upgrader.Main(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}
