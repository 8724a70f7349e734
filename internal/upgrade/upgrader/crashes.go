package upgrader

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// podLogs is where the runtime keeps the logs of pods: a folder for each pod, in it one for each container, in it a file for each start.
const podLogs = "/var/log/pods"

// mostStarts is how many starts of a component are too many: the first may have come before what it needs.
const mostStarts = 3

// starts are how often each container of a component's pods was started, by the folder of its logs. The runtime numbers logs from 0 on, and
// removes those of containers that are gone: only the highest number tells.
func starts(logs, component, nodeName string) (map[string]int, error) {
	files, err := logFiles(logs, component, nodeName)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, file := range files {
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(file), ".log"))
		if err != nil {
			continue // an older part of a long log
		}
		dir := filepath.Dir(file)
		counts[dir] = max(counts[dir], number+1)
	}
	return counts, nil
}

func logFiles(logs, component, nodeName string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(logs, "kube-system_"+component+"-"+nodeName+"_*", component, "*.log"))
	if err != nil {
		return nil, fmt.Errorf("looking for the logs of %s: %w", component, err)
	}
	return files, nil
}

// more is how many starts there were since an earlier count.
func more(now, before map[string]int) int {
	total := 0
	for dir, count := range now {
		total += max(0, count-before[dir])
	}
	return total
}

// lastLog is the end of the log of a component's newest container; empty: there is none.
func lastLog(logs, component, nodeName string) (string, error) {
	files, err := logFiles(logs, component, nodeName)
	if err != nil {
		return "", err
	}
	var newest time.Time
	last := ""
	for _, file := range files {
		began, end, err := logEnds(file)
		if err != nil {
			return "", err
		}
		if end != "" && began.After(newest) {
			newest, last = began, end
		}
	}
	return last, nil
}

// logEnds are when a container's log began, and its last lines, without the runtime's prefixes.
func logEnds(file string) (began time.Time, end string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return began, "", fmt.Errorf("reading a log: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return began, "", fmt.Errorf("reading a log: %w", err)
	}
	first, err := bufio.NewReader(f).ReadString(' ')
	if err != nil && !errors.Is(err, io.EOF) {
		return began, "", fmt.Errorf("reading %s: %w", file, err)
	}
	if began, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(first)); err != nil {
		began = info.ModTime() // it is empty
	}
	const most = 4 << 10
	data := make([]byte, most)
	n, err := f.ReadAt(data, max(0, info.Size()-most))
	if err != nil && !errors.Is(err, io.EOF) {
		return began, "", fmt.Errorf("reading %s: %w", file, err)
	}
	return began, lastLines(string(data[:n])), nil
}

// lastLines are the last three lines of a log. Before each are the time, the stream and whether the line is whole.
func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	lines = lines[max(0, len(lines)-3):]
	for i, line := range lines {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			lines[i] = fields[3]
		}
	}
	return tail(strings.Join(lines, "; "))
}
