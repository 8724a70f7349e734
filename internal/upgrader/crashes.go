package upgrader

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// podLogs is where the runtime keeps the logs of pods: a folder for each pod, in it one for each container, in it a file for each start.
const podLogs = "/var/log/pods"

// mostStarts is how many starts of a component are too many: the first may have come before what it needs.
const mostStarts = 3

// container is what is known of a component's container since a moment.
type container struct {
	starts int
	last   string // the end of the newest log
}

// startsSince looks at the logs that a component's containers began after a moment.
func startsSince(logs, component, nodeName string, since time.Time) (container, error) {
	files, err := filepath.Glob(filepath.Join(logs, "kube-system_"+component+"-"+nodeName+"_*", component, "*.log"))
	if err != nil {
		return container{}, fmt.Errorf("looking for the logs of %s: %w", component, err)
	}
	var c container
	var newest time.Time
	for _, file := range files {
		began, end, err := logEnds(file)
		if err != nil {
			return container{}, err
		}
		if began.Before(since) {
			continue
		}
		c.starts++
		if began.After(newest) {
			newest, c.last = began, end
		}
	}
	return c, nil
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
