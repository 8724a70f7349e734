package embed

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// writePID records a process so that it is known again: its number, and when it started, as numbers are used again.
func writePID(file string, pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return err
	}
	return writeFile(file, fmt.Appendf(nil, "%d %d\n", pid, started))
}

// readPID returns the process that a file records, if it still runs.
func readPID(file string) (pid int, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	var started uint64
	if _, err := fmt.Sscanf(string(data), "%d %d", &pid, &started); err != nil {
		return 0, false
	}
	now, err := startTime(pid)
	return pid, err == nil && now == started
}

// startTime is when a living process started, in clock ticks since the host was booted.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may hold anything; what follows are fields 3 and on.
	const first = 3
	const state, threads, start = 0, 20 - first, 22 - first
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= start {
		return 0, fmt.Errorf("looking at process %d: its stat has %d fields", pid, len(fields))
	}
	// As long as any thread lives, the ports and locks of a process do, even if its first thread has ended.
	last := len(fields[threads]) == 1 && fields[threads][0] <= '1'
	if s := fields[state][0]; s == 'X' || (s == 'Z' && last) {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(string(fields[start]), 10, 64)
}
