package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/internal/local/balancer"
)

// endpoint serves one cluster's API endpoint until SIGTERM.
func endpoint(args []string) int {
	flags := flag.NewFlagSet("endpoint", flag.ContinueOnError)
	config := flags.String("config", "", "file that says where to listen and which API servers there are")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *config == "" || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: quorate-node endpoint --config FILE")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := balancer.Run(ctx, *config); err != nil {
		slog.Error("the endpoint cannot be served", "error", err)
		return 1
	}
	return 0
}
