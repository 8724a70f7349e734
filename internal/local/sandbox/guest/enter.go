package guest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Exit codes when the machine cannot be entered, as ssh has it, and when the command cannot be run, as shells have it.
const (
	exitCannotEnter = 255
	exitCannotFind  = 127
)

// entry is what Enter is asked.
type entry struct {
	pid    int
	cgroup []string
	env    []string
	tty    bool
	argv   []string
}

// EnterArgs are the arguments with which quorate-node runs argv in the machine whose first process is pid.
// Cgroups are cgroup.procs files; env is added to the environment.
func EnterArgs(pid int, cgroups, env []string, tty bool, argv []string) []string {
	args := []string{"enter", "--pid", strconv.Itoa(pid)}
	for _, c := range cgroups {
		args = append(args, "--cgroup", c)
	}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	if tty {
		args = append(args, "--tty")
	}
	return append(append(args, "--"), argv...)
}

// Enter runs a command in a machine: in all its namespaces and cgroups. It returns the command's exit code. When
// the machine cannot be entered it writes why to descriptor 3, since every exit code may be the command's.
func Enter(args []string) int {
	var e entry
	flags := flag.NewFlagSet("enter", flag.ContinueOnError)
	flags.IntVar(&e.pid, "pid", 0, "the machine's first process")
	flags.Func("cgroup", "a cgroup.procs file to join", func(v string) error { e.cgroup = append(e.cgroup, v); return nil })
	flags.Func("env", "a variable", func(v string) error { e.env = append(e.env, v); return nil })
	flags.BoolVar(&e.tty, "tty", false, "give the command a terminal of its own")
	if err := flags.Parse(args); err != nil {
		return exitCannotEnter
	}
	e.argv = flags.Args()
	unix.CloseOnExec(reportFD)
	code, err := e.run()
	if err != nil {
		fmt.Fprint(os.NewFile(reportFD, "report"), err)
		return exitCannotEnter
	}
	return code
}

func (e entry) run() (int, error) {
	if e.pid <= 0 || len(e.argv) == 0 {
		return 0, fmt.Errorf("enter needs --pid and a command")
	}
	// The thread that joins the namespaces is the one that starts the command, and its death kills the command.
	runtime.LockOSThread()
	if err := JoinCgroups(e.cgroup); err != nil {
		return 0, err
	}
	if err := joinNamespaces(e.pid); err != nil {
		return 0, err
	}
	os.Clearenv()
	for _, v := range append(environment(), e.env...) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return 0, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	cmd := exec.Command(filepath.Join(ProgramDir, "quorate-node"), append([]string{"become"}, e.argv...)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/root", os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if e.tty {
		return runOnTerminal(cmd)
	}
	return wait(cmd, cmd.Run())
}

// Become turns this process, the child of an Enter, into the command, which dies with that. Asking the
// kernel for it from Enter would not do: there the parent looks dead, being in another pid namespace.
func Become(args []string) int {
	runtime.LockOSThread()
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	// An orphan belongs to the machine's first process.
	if err == nil && os.Getppid() == 1 {
		return exitCannotEnter
	}
	path := ""
	if err == nil {
		path, err = exec.LookPath(args[0])
	}
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "quorate-node: running %s: %v\n", args[0], err)
	return exitCannotFind
}

// joinNamespaces moves this thread into the machine's namespaces; its children get the pid namespace too.
func joinNamespaces(pid int) error {
	// A thread that shares its root and working folder with others may not change the mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("entering the machine: %w", err)
	}
	kinds := []string{"cgroup", "ipc", "uts", "net", "pid", "mnt"}
	fds := make([]int, len(kinds))
	for i, kind := range kinds {
		fd, err := unix.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("entering the machine: its %s namespace: %w", kind, err)
		}
		fds[i] = fd
	}
	for i, kind := range kinds {
		if err := unix.Setns(fds[i], 0); err != nil {
			return fmt.Errorf("entering the machine's %s namespace: %w", kind, err)
		}
		_ = unix.Close(fds[i])
	}
	return nil
}

// wait turns the end of a command into its exit code.
func wait(cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			return exitCode(status), nil
		}
	}
	return 0, fmt.Errorf("running %s in the machine: %w", cmd.Path, err)
}

// runOnTerminal gives the command a terminal of the machine's own and copies between that and this process's.
func runOnTerminal(cmd *exec.Cmd) (int, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return 0, err
	}
	defer func() { _ = master.Close() }()
	in := int(os.Stdin.Fd())
	old, err := term.MakeRaw(in)
	if err != nil {
		return 0, fmt.Errorf("a terminal is wanted, and standard input is none: %w", err)
	}
	defer func() { _ = term.Restore(in, old) }()
	resize := func() {
		if size, err := unix.IoctlGetWinsize(in, unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)
		}
	}
	resize()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH)
	go func() {
		for range signals {
			resize()
		}
	}()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("running %s in the machine: %w", cmd.Path, err)
	}
	_ = slave.Close()
	go func() { _, _ = io.Copy(master, os.Stdin) }()
	// Reading fails with EIO once the last process has closed the terminal.
	_, _ = io.Copy(os.Stdout, master)
	return wait(cmd, cmd.Wait())
}

// openTerminal makes a terminal in the machine that this thread has entered.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("making a terminal: %w", errors.Join(err, master.Close()))
	}
	return master, slave, nil
}
