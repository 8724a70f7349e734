package embed

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// This test's program is a daemon too, when it is called as Start calls one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "daemon" && os.Args[2] == "--state" {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		err := Run(ctx, Options{State: os.Args[3], Audit: true})
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
