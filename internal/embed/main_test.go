package embed

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
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

// Called with the argument headless, this program ends its first thread at once, and itself when standard input ends.
// An init function runs on that thread.
func init() {
	if len(os.Args) != 2 || os.Args[1] != "headless" {
		return
	}
	runtime.LockOSThread()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}
