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

// kubeletStart is when the kubelet's process was started. An error: it does not run.
func kubeletStart(ctx context.Context) (time.Time, error) {
	program := lookup("systemctl")
	if program == "" {
		return time.Time{}, errors.New("looking for systemctl: the node has none")
	}
	output, err := run(ctx, nil, program, "show", "kubelet", "--property=MainPID")
	if err != nil {
		return time.Time{}, err
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(output), "MainPID="))
	if err != nil || pid == 0 {
		return time.Time{}, errors.New("the kubelet does not run")
	}
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
func processStart(stat, system string) (time.Time, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
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
