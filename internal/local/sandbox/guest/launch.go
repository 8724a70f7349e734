package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The file descriptors between the host and a machine that is being started.
const (
	// reportFD carries the process number of the machine's first process and, when the start fails, the reason.
	reportFD = 3
	// goFD gives one byte once the host has recorded the process and made its link; its end without a byte
	// means that the host's process died, and the machine would have no record.
	goFD = 4
)

// Launch starts a machine's first process and returns; args are the path of the Boot. It runs on the host, as a
// process of its own. Only whole processes join cgroups and namespaces, and the machine must
// not be the child of the process that asked for it.
func Launch(args []string) int {
	report := os.NewFile(reportFD, "report")
	if err := launch(args, report); err != nil {
		fmt.Fprintf(report, "error: %v", err)
		return 1
	}
	return 0
}

func launch(args []string, report *os.File) error {
	if len(args) != 1 {
		return fmt.Errorf("launch takes one file, got %d arguments", len(args))
	}
	boot, err := readBoot(args[0])
	if err != nil {
		return err
	}
	if err := JoinCgroups(boot.Cgroups.Procs); err != nil {
		return err
	}
	unix.Umask(0o022)
	cmd := exec.Command("/proc/self/exe", "init", args[0])
	cmd.Env = []string{"PATH=" + Path, "HOME=/root"}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{report, os.NewFile(goFD, "go")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS |
			unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
	}
	// The child's cgroup namespace begins at the cgroups of the thread that clones it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the first process: %w", err)
	}
	if _, err := fmt.Fprintf(report, "%d\n", cmd.Process.Pid); err != nil {
		return fmt.Errorf("telling the host the process number: %w", err)
	}
	return nil
}

// JoinCgroups moves this process into each of the cgroups, given by their cgroup.procs files.
func JoinCgroups(procs []string) error {
	pid := []byte(strconv.Itoa(os.Getpid()))
	for _, path := range procs {
		if err := os.WriteFile(path, pid, 0); err != nil {
			return fmt.Errorf("joining the cgroup %s: %w", filepath.Dir(path), err)
		}
	}
	return nil
}

// Init is the machine's first process before it has its own root; args are the path of the Boot. On success it
// becomes Run and does not return.
func Init(args []string) int {
	report := os.NewFile(reportFD, "report")
	err := initialise(args)
	fmt.Fprintf(report, "error: %v", err)
	return 1
}

func initialise(args []string) error {
	if os.Getpid() != 1 || len(args) != 1 {
		return fmt.Errorf("init is started by launch only")
	}
	unix.CloseOnExec(reportFD)
	start := os.NewFile(goFD, "go")
	if n, err := start.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("waiting for the host: %w", err)
	}
	_ = start.Close()
	boot, err := readBoot(args[0])
	if err != nil {
		return err
	}
	if err := enterRoot(boot); err != nil {
		return err
	}
	if err := prepare(boot); err != nil {
		return err
	}
	node := filepath.Join(ProgramDir, "quorate-node")
	err = syscall.Exec(node, []string{node, "run"}, []string{"PATH=" + Path, "HOME=/root"})
	return fmt.Errorf("starting %s: %w", node, err)
}
