package upgrader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/core/steps"
)

// resultFD is where the node's part of a step writes its result.
const resultFD = 3

// enter runs the node's part of a step, and returns what it reports. It is this same program, in the namespaces of the node's first
// process.
func enter(ctx context.Context, name steps.Name, wanted steps.Wanted, out io.Writer) steps.Result {
	spec, err := json.Marshal(wanted)
	if err != nil {
		return result("", fmt.Errorf("writing what is wanted: %w", err))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return result("", fmt.Errorf("entering the node: %w", err))
	}
	defer func() { _ = r.Close() }()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", name.Command(), "--spec", string(spec),
		fmt.Sprintf("--inside=/proc/%d/root", os.Getpid()))
	cmd.Env = []string{"HOME=/root", "PATH=" + strings.Join(searchPath(), ":")}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{w}
	// Without its container the step must not go on: the next pod does it again.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	go func() { ended <- runInside(cmd, w) }()
	var reported steps.Result
	failure := json.NewDecoder(r).Decode(&reported)
	err = <-ended
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() {
		fmt.Fprintf(out, "the node's part of the step: %v\n", err)
		return steps.Result{}
	}
	if err != nil {
		return result("", fmt.Errorf("entering the node: %w", err))
	}
	if failure != nil {
		return result("", fmt.Errorf("reading the result of the node's part: %w", failure))
	}
	return reported
}

// The first thread stands for the whole process: /proc/PID/root is its root. It is kept for the first goroutine, so that it is never the
// one that moves into the node, and takes the image's files out of the node's sight.
func init() { runtime.LockOSThread() }

// runInside runs a command in the namespaces of the node's first process. The thread that has changed its namespaces is never used again.
func runInside(cmd *exec.Cmd, w *os.File) error {
	runtime.LockOSThread()
	err := joinNode()
	if err == nil {
		err = cmd.Start()
	}
	_ = w.Close()
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// joinNode moves this thread into the namespaces of the node's first process.
func joinNode() error {
	// A thread that shares its root with others may not change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the folder that threads share: %w", err)
	}
	var namespaces []*os.File
	defer func() {
		for _, f := range namespaces {
			_ = f.Close()
		}
	}()
	for _, name := range []string{"cgroup", "ipc", "uts", "net", "mnt"} {
		f, err := os.Open("/proc/1/ns/" + name)
		if err != nil {
			return fmt.Errorf("opening the node's namespace: %w", err)
		}
		namespaces = append(namespaces, f)
	}
	for _, f := range namespaces {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("joining %s: %w", f.Name(), err)
		}
	}
	return nil
}

// run runs a program to its end and returns what it printed, both streams.
func run(ctx context.Context, env []string, argv ...string) (string, error) {
	// A program must not go on beside the one that repeats its step. The kernel ends it with the thread that started it, which is kept for
	// that.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append([]string{"HOME=/root", "PATH=" + strings.Join(searchPath(), ":")}, env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("running %s: %w: %s", strings.Join(short(argv), " "), err, tail(string(output)))
	}
	return string(output), nil
}

// short is a command line with the program's name instead of its path.
func short(argv []string) []string {
	if len(argv) > 4 {
		argv = argv[:4]
	}
	return append([]string{argv[0][strings.LastIndex(argv[0], "/")+1:]}, argv[1:]...)
}

// tail is the end of an output.
func tail(output string) string {
	const most = 600
	output = strings.TrimSpace(output)
	if len(output) > most {
		output = output[len(output)-most:]
	}
	return output
}
