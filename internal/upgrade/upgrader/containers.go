package upgrader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// patience is how long a container may take to end by itself: an API server that closes all its watches takes up to a minute, in which it
// serves no client.
const patience = 2 * time.Second

// endTimeout is how long a container that was killed may take to be gone.
const endTimeout = 30 * time.Second

// endComponents ends the containers of the node's static pods, etcd last. The kubelet must be stopped, or it would start them again.
func (s service) endComponents(ctx context.Context, nodeName string) error {
	pids, err := s.componentProcesses(ctx, nodeName)
	if err != nil {
		return err
	}
	var others, etcd []int
	for _, pid := range pids {
		if processName(pid) == etcdName {
			etcd = append(etcd, pid)
		} else {
			others = append(others, pid)
		}
	}
	if err := end(ctx, others); err != nil {
		return err
	}
	return end(ctx, etcd)
}

// processName is the name of a process's program, as far as the kernel keeps it; empty: it has ended.
func processName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// componentProcesses are the first processes of the containers. Both questions are asked at once: nothing serves meanwhile.
func (s service) componentProcesses(ctx context.Context, nodeName string) ([]int, error) {
	ask, err := s.at.ctr("--namespace", "k8s.io", "containers", "ls", "--quiet")
	if err != nil {
		return nil, err
	}
	list, err := s.at.ctr("--namespace", "k8s.io", "tasks", "ls")
	if err != nil {
		return nil, err
	}
	for _, component := range components {
		ask = append(ask, fmt.Sprintf(
			`labels."io.kubernetes.pod.namespace"==kube-system,labels."io.kubernetes.container.name"==%s,labels."io.kubernetes.pod.name"==%s-%s`,
			component, component, nodeName))
	}
	var ids, tasks string
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { ids, err = run(ctx, nil, ask...); return err })
	group.Go(func() (err error) {
		tasks, err = run(ctx, nil, list...)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	running, pids := taskProcesses(tasks), []int(nil)
	for _, id := range strings.Fields(ids) {
		if pid, runs := running[id]; runs {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// taskProcesses reads ctr's list of tasks: those that run, by container.
func taskProcesses(output string) map[string]int {
	pids := map[string]int{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "RUNNING" {
			continue
		}
		if pid, err := strconv.Atoi(fields[1]); err == nil && pid > 1 {
			pids[fields[0]] = pid
		}
	}
	return pids
}

// end ends processes: first they are told to, and then killed.
func end(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
	}
	if gone(ctx, pids, patience) == nil {
		return nil
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing process %d: %w", pid, err)
		}
	}
	return gone(ctx, pids, endTimeout)
}

// gone waits until none of the processes exists.
func gone(ctx context.Context, pids []int, timeout time.Duration) error {
	return until(ctx, timeout, 20*time.Millisecond, func(context.Context) error {
		for _, pid := range pids {
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("ending process %d: it still exists", pid)
			}
		}
		return nil
	})
}
