package joinfailure

import (
	"regexp"
	"slices"
	"strings"
)

// mostErrors is the most bytes of errors that are kept of a kubelet's log.
const mostErrors = 4 << 10

// told is a line of klog that tells of no error.
var told = regexp.MustCompile(`^[IW]\d{4} `)

// header matches what klog writes before a message: severity, time, process.
var header = regexp.MustCompile(`^[EF]\d{4} [0-9:.]+ +\d+ `)

// Errors returns the last lines of a kubelet's log that report errors, or that are not the kubelet's own, such as how it ended. Of messages
// that repeat it keeps the last: a kubelet logs some ten times a second, and they would leave no room for others. The lines have secrets
// as the log has.
func Errors(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	var kept []string
	size, seen := 0, map[string]bool{}
	for _, line := range slices.Backward(lines) {
		message := header.ReplaceAllString(line, "")
		if told.MatchString(line) || seen[message] {
			continue
		}
		seen[message] = true
		if size += len(line) + 1; size > mostErrors {
			break
		}
		kept = append(kept, line)
	}
	slices.Reverse(kept)
	return strings.Join(kept, "\n")
}
