package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Components are the names that KillComponent knows.
func Components() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "containerd", "kube-proxy", "coredns"}
}

// KillComponent sends SIGKILL to a component's processes in a machine; see Components.
func (h *Host) KillComponent(ctx context.Context, name, component string) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("component %q: must be one of %s", component, strings.Join(Components(), ", "))
	}
	return h.with(ctx, name, func(_ folder, r *record) error {
		if !r.Process.Alive() {
			return fmt.Errorf("machine %s does not run", name)
		}
		groups, err := hostCgroups(h.ID())
		if err != nil {
			return err
		}
		pids, err := groups.processes(name)
		if err != nil {
			return err
		}
		killed, err := killProgram(pids, component)
		if err != nil {
			return fmt.Errorf("killing %s of %s: %w", component, name, err)
		}
		if killed == 0 {
			return fmt.Errorf("machine %s runs no %s", name, component)
		}
		return nil
	})
}

// killProgram sends SIGKILL to those of the processes that were started as a program, and returns how many these are.
func killProgram(pids []int, name string) (int, error) {
	killed := 0
	for _, pid := range pids {
		if program(pid) != name {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return killed, err
		}
		killed++
	}
	return killed, nil
}

// program is the name that a process was started under; empty when it is gone. The kernel's own note of it has 15
// letters, too few for some components.
func program(pid int) string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	return filepath.Base(string(first))
}
