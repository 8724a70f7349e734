// Command quorate makes highly available Kubernetes control planes on one
// host, shows how they are, and is the daemon that keeps them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/program/buildinfo/gauge"
)

// plugin is the name by which kubectl finds this program: kubectl quorate plan.
const plugin = "kubectl-quorate"

// environment is the process's, and reports whether kubectl started it.
func environment(name string) string {
	if name == "QUORATE_KUBECTL" && filepath.Base(os.Args[0]) == plugin {
		return "1"
	}
	return os.Getenv(name)
}

func main() {
	scratch.RunIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := gauge.Register(metrics.Registry); err != nil {
		fmt.Fprintln(os.Stderr, "quorate:", err)
	}
	code := cli.Main(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, environment)
	stop()
	os.Exit(code)
}
