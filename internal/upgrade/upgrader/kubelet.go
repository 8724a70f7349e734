package upgrader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of a process's start time: what programs see of it is the same on all of Linux.
const clockTick = time.Second / 100

// kubelet is the kubelet's process, as it was seen last; number 0: it was not.
type kubelet struct {
	pid     int
	started time.Time
	// ask asks the service manager for the number of its process.
	ask func(context.Context) (int, error)
}

// start is when it was started. An error: it does not run. The service manager is asked only when what was seen has ended: to start a
// program four times a second takes the time that the node needs to serve.
func (k *kubelet) start(ctx context.Context) (time.Time, error) {
	if k.pid != 0 {
		if at, err := startOf(k.pid); err == nil && at.Equal(k.started) {
			return at, nil
		}
	}
	pid, err := k.ask(ctx)
	if err != nil {
		return time.Time{}, err
	}
	started, err := startOf(pid)
	if err != nil {
		return time.Time{}, err
	}
	k.pid, k.started = pid, started
	return started, nil
}

// kubeletPID is the number of the kubelet's process. An error: it does not run.
func kubeletPID(ctx context.Context) (int, error) {
	program := lookup("systemctl")
	if program == "" {
		return 0, errors.New("looking for systemctl: the node has none")
	}
	output, err := run(ctx, nil, program, "show", "kubelet", "--property=MainPID")
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(output), "MainPID="))
	if err != nil || pid == 0 {
		return 0, errors.New("the kubelet does not run")
	}
	return pid, nil
}

// startOf is when a process was started. An error: it has ended.
func startOf(pid int) (time.Time, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, fmt.Errorf("looking when the kubelet was started: %w", err)
	}
	boot, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("looking when the kubelet was started: %w", err)
	}
	return processStart(string(stat), string(boot))
}

// processStart reads when a process was started: after the boot, by its own stat file, whose second field may hold anything in parentheses.
// An error: it has ended, and is only still listed.
func processStart(stat, system string) (time.Time, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) > 0 && strings.ContainsAny(fields[0], "ZX") {
		return time.Time{}, errors.New("looking when the kubelet was started: it has ended")
	}
	const startTime = 19 // the 22nd field; two are before
	var booted int64
	for line := range strings.Lines(system) {
		if value, found := strings.CutPrefix(line, "btime "); found {
			booted, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	if len(fields) <= startTime || booted == 0 {
		return time.Time{}, errors.New("looking when the kubelet was started: its stat file is not as expected")
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("looking when the kubelet was started: %w", err)
	}
	return time.Unix(booted, 0).Add(time.Duration(ticks) * clockTick), nil
}
