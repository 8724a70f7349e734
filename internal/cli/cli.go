// Package cli is quorate's command line: the table of contents of all commands, each in a package of its own. These know
// what people ask for and how they are told; the work is done by the packages below, and what is drawn is made by
// report and screen.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/cli/access"
	"github.com/quorate/quorate/internal/cli/artifact"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/down"
	"github.com/quorate/quorate/internal/cli/machine"
	"github.com/quorate/quorate/internal/cli/status"
	"github.com/quorate/quorate/internal/cli/up"
	"github.com/quorate/quorate/internal/cli/upgrade"
	"github.com/quorate/quorate/internal/program/buildinfo"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// app is one run of the program.
type app struct {
	command.Invocation
	// begun: flags and arguments were good, and the command itself runs.
	begun bool
}

// Main runs one command line until it is done or ctx ends, and returns the
// program's exit code. Errors are written to the stream for errors, each as one line.
func Main(ctx context.Context, args []string, streams command.Streams, environment func(string) string) int {
	quiet()
	a := &app{Invocation: command.Invocation{Streams: streams, Environment: environment}}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return command.ExitOK
	}
	code := command.ExitCode(ctx, a.begun, err)
	var coded *command.ExitError
	switch isCoded := errors.As(err, &coded); {
	case isCoded && coded.Err == nil:
		return code
	case isCoded: // it says all there is to say
	case code == command.ExitUsage:
		err = errors.New(strings.Join(strings.Fields(err.Error()), " "))
	case code == command.ExitInterrupted:
		err = errors.New("interrupted")
	}
	_, _ = fmt.Fprintf(a.Err, "quorate: %s\n", plaintext.Visible(err.Error()))
	return code
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
		Use:     "quorate",
		Version: buildinfo.Get().Line("quorate"),
		Short:   "Kubernetes control planes that never lose their etcd quorum",
		Long: `Quorate makes and keeps highly available Kubernetes control planes.

On one Linux host, 'quorate up' makes a real one. Its machines are made of namespaces, on each the real
containerd, kubelet, kube-apiserver and etcd. Beside them runs a management plane with Cluster API and
Quorate's controllers. All of it lies under one folder, and 'quorate down' leaves nothing behind.

` + command.ExitCodes,
		Example: `  quorate up                      # a control plane of three machines, called demo
  quorate status --watch          # its machines, its quorum, what happens next
  quorate explain                 # why that happens next
  quorate history                 # what was done, when and why
  quorate kubectl -- get nodes
  quorate machine stop demo-cp-2  # a fault
  quorate down`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.State == "" { // not the working folder, which may be anybody's
				return errors.New("invalid --state \"\": must be the path of a folder, for example " + command.DefaultState)
			}
			a.begun = true
			abs, err := filepath.Abs(a.State)
			if err != nil {
				return fmt.Errorf("making --state absolute: %w", err)
			}
			a.State = abs
			return nil
		},
	}
	state := a.Environment("QUORATE_STATE")
	if state == "" {
		state = command.DefaultState
	}
	root.PersistentFlags().StringVar(&a.State, "state", state,
		"folder of the environment: machines, management plane, logs (environment variable QUORATE_STATE)")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.Usagef("%w; see %q", flagError(err), cmd.CommandPath()+" --help")
	})
	root.AddCommand(up.Command(&a.Invocation), upgrade.Command(&a.Invocation),
		upgrade.ApproveCommand(&a.Invocation), upgrade.DecideCommand(&a.Invocation),
		down.Command(&a.Invocation), artifact.Command(&a.Invocation), up.DaemonCommand(&a.Invocation), artifact.VersionCommand(&a.Invocation))
	for _, commands := range []func(*command.Invocation) []*cobra.Command{status.Commands, access.Commands, machine.Commands} {
		root.AddCommand(commands(&a.Invocation)...)
	}
	return root
}

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
		"format":   strings.Join(command.Formats, ", "),
	}[invalid.GetFlag().Value.Type()]
	if !known {
		return err
	}
	return fmt.Errorf("invalid --%s %q: must be %s", invalid.GetFlag().Name, invalid.GetValue(), accepted)
}
