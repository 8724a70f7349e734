package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a controller has used since it started.
type usage struct {
	CPU time.Duration
	// Resident is its memory now, Peak the most that it had, in bytes.
	Resident, Peak int64
	Goroutines     int
	// Requests are those to the management cluster's API server that have ended.
	Requests int
}

// since is what was used since an earlier time, with the memory of now.
func (u usage) since(earlier usage) usage {
	u.CPU -= earlier.CPU
	u.Requests -= earlier.Requests
	return u
}

// ticks are those of a second in /proc/PID/stat, for all of Linux's architectures.
const ticks = 100

// used reads what the world's controller has used.
func (w *world) used(ctx context.Context) (usage, error) {
	var u usage
	pid := strconv.Itoa(w.kept.cmd.Process.Pid)
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return u, err
	}
	// The fields after the program's name, which may have blanks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12
	for _, field := range []int{user, system} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%s/stat: %w", pid, err)
		}
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.Resident = kilobytes << 10
		case "VmHWM":
			u.Peak = kilobytes << 10
		}
	}
	if u.Goroutines, err = w.goroutines(ctx); err != nil {
		return u, err
	}
	u.Requests, err = w.requests()
	return u, err
}

// goroutines asks the controller's metrics.
func (w *world) goroutines(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.diagnostics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, is := strings.CutPrefix(lines.Text(), "go_goroutines "); is {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("%s tells no goroutines", w.diagnostics)
}

// requests counts what the controller asked of the API server, by the audit log.
func (w *world) requests() (int, error) {
	file, err := os.Open(w.audit)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	count, lines := 0, bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return count, nil // the last line may not be whole yet
		}
		if err != nil {
			return 0, err
		}
		var event struct{ User struct{ Username string } }
		if err := json.Unmarshal(line, &event); err != nil {
			return 0, fmt.Errorf("%s: %w", w.audit, err)
		}
		if event.User.Username == string(w.side) {
			count++
		}
	}
}
