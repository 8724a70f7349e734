// Package command is what the commands of quorate's command line share: exit codes, streams, the state folder and what
// lies in it, the form of data, and how waiting is shown. It knows no command.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/artifacts"
)

// Exit codes of the command line.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitHost        = 3
	ExitTimeout     = 4
	ExitInterrupted = 130
)

// ExitCodes is what help says of them.
const ExitCodes = `Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted. 3: the host lacks something (root, a program, room, a
port, the daemon). 4: the time given was over before all was done. 'shell' and 'kubectl' end with the code of what they ran.`

// DefaultState is the state folder where none is given.
const DefaultState = "/var/lib/quorate"

// ExitError is an error that ends the program with a code of its own. Without an error nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

// Error is what is printed.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap is the error itself.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage makes an error one of wrong usage or input; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{ExitUsage, err}
}

// Usagef is an error of wrong usage or input.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// HostLacks makes an error one of what the host lacks.
func HostLacks(err error) error { return &ExitError{ExitHost, err} }

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Invocation is one run of the program, as all commands know it.
type Invocation struct {
	Streams
	// Environment reads a variable of the process's environment.
	Environment func(string) string
	// State is the folder of --state.
	State string
	// Kubeconfig and Context name a management cluster of the user's own, in place of the environment's; empty: kubectl's.
	Kubeconfig, Context string
}

// ExitCode is the code of an error that the program ended with. begun: flags and arguments were good, and the command
// itself ran.
func ExitCode(ctx context.Context, begun bool, err error) int {
	var coded *ExitError
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case !begun:
		return ExitUsage
	case ctx.Err() != nil:
		return ExitInterrupted
	case errors.Is(err, artifacts.ErrDiskFull), errors.Is(err, artifacts.ErrNoGo), errors.Is(err, syscall.EADDRINUSE):
		return ExitHost
	}
	return ExitFailed
}

// NewScreen is where a command shows what it does.
func (a *Invocation) NewScreen() *screen.Screen { return screen.New(a.Out, a.Environment) }

// FileOf is the file that a stream is, if it is one.
func FileOf(stream any) (*os.File, bool) {
	f, is := stream.(*os.File)
	return f, is
}

// OneArgumentAtMost refuses a second argument.
func OneArgumentAtMost(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%q is one argument too many for %q; see %q", args[1], cmd.CommandPath(), cmd.CommandPath()+" --help")
	}
	return nil
}

// NoArguments refuses any argument.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no argument, and %q was given; see %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help")
	}
	return nil
}

// LeastArguments refuses fewer arguments than that.
func LeastArguments(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("%q needs %s; see %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// NeedRoot is for commands that touch machines.
func NeedRoot() error {
	if os.Geteuid() != 0 {
		return HostLacks(errors.New("machines need root: run this as root, for example with sudo"))
	}
	return nil
}
