// Package cli is quorate's command line, one file a command. It knows what
// people ask for and how they are told; the work is done by the packages
// below it, and what is drawn is made by report and screen.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/artifacts"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/plaintext"
)

// Exit codes of the command line.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitHost        = 3
	exitTimeout     = 4
	exitInterrupted = 130
)

const exitCodes = `Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 the host lacks something (root, a program, room, a port, the daemon),
4 the time given was over before all was done, 130 interrupted. 'shell' and 'kubectl' end with the code of what they ran.`

const defaultState = "/var/lib/quorate"

// exitError is an error that ends the program with a code of its own. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

// Error is what is printed.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap is the error itself.
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func host(err error) error { return &exitError{exitHost, err} }

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is what all commands share.
type app struct {
	Streams
	// environment reads a variable of the process's environment.
	environment func(string) string
	// state is the folder of --state.
	state string
	// begun: flags and arguments were good, and the command itself runs.
	begun bool
}

// Main runs one command line until it is done or ctx ends, and returns the
// program's exit code. Errors are written to the stream for errors, each as one line.
func Main(ctx context.Context, args []string, streams Streams, environment func(string) string) int {
	quiet()
	a := &app{Streams: streams, environment: environment}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := a.exitCode(ctx, err)
	var coded *exitError
	switch isCoded := errors.As(err, &coded); {
	case isCoded && coded.err == nil:
		return code
	case isCoded: // it says all there is to say
	case code == exitUsage:
		err = errors.New(strings.Join(strings.Fields(err.Error()), " "))
	case code == exitInterrupted:
		err = errors.New("interrupted")
	}
	_, _ = fmt.Fprintf(a.Err, "quorate: %s\n", plaintext.Visible(err.Error()))
	return code
}

// exitCode is the code of an error that a command ended with.
func (a *app) exitCode(ctx context.Context, err error) int {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case !a.begun:
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, artifacts.ErrDiskFull), errors.Is(err, artifacts.ErrNoGo), errors.Is(err, syscall.EADDRINUSE):
		return exitHost
	}
	return exitFailed
}

// quiet keeps libraries from writing among what is meant for people. The daemon has a log of its own.
func quiet() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "Kubernetes control planes that never lose their etcd quorum",
		Long: `Quorate makes and keeps highly available Kubernetes control planes.

On one Linux host, 'quorate up' makes a real one: machines made of namespaces, on each the real
containerd, kubelet, kube-apiserver and etcd, and beside them a management plane with Cluster API and
Quorate's controllers. All of it lies under one folder, and 'quorate down' leaves nothing behind.

` + exitCodes,
		Example: `  quorate up                      # a control plane of three machines, called demo
  quorate status --watch          # its machines, its quorum, what happens next
  quorate explain                 # why that happens next
  quorate kubectl -- get nodes
  quorate machine stop demo-cp-2  # a fault
  quorate down`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.state == "" { // not the working folder, which may be anybody's
				return errors.New("--state is empty: the path of a folder would be accepted, for example " + defaultState)
			}
			a.begun = true
			abs, err := filepath.Abs(a.state)
			if err != nil {
				return fmt.Errorf("making --state absolute: %w", err)
			}
			a.state = abs
			return nil
		},
	}
	state := a.environment("QUORATE_STATE")
	if state == "" {
		state = defaultState
	}
	root.PersistentFlags().StringVar(&a.state, "state", state, "folder of the environment: machines, management plane, logs (environment variable QUORATE_STATE)")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %q", flagError(err), cmd.CommandPath()+" --help")
	})
	root.AddCommand(
		a.upCommand(), a.statusCommand(), a.explainCommand(), a.kubeconfigCommand(), a.kubectlCommand(),
		a.logsCommand(), a.machineCommand(), a.shellCommand(), a.downCommand(),
		a.artifactsCommand(), a.daemonCommand(), a.versionCommand(),
	)
	return root
}

func (a *app) newScreen() *screen.Screen { return screen.New(a.Out, a.environment) }

// flagError says what a flag would accept instead.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	accepted, known := map[string]string{
		"int":      "a whole number",
		"int32":    "a whole number",
		"duration": "a duration such as 90s or 10m",
		"bool":     "true or false",
		"format":   strings.Join(formats, ", "),
	}[invalid.GetFlag().Value.Type()]
	if !known {
		return err
	}
	return fmt.Errorf("--%s is %q: %s would be accepted", invalid.GetFlag().Name, invalid.GetValue(), accepted)
}

// fileOf is the file that a stream is, if it is one.
func fileOf(stream any) (*os.File, bool) {
	f, is := stream.(*os.File)
	return f, is
}
