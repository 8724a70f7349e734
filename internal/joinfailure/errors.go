package joinfailure

import (
	"regexp"
	"strings"
)

// mostErrors is the most bytes of errors that are kept of a kubelet's log.
const mostErrors = 4 << 10

// told is a line of klog that tells of no error.
var told = regexp.MustCompile(`^[IW]\d{4} `)

// Errors are the last lines of a kubelet's log that tell of errors, or that are not the kubelet's own: whoever runs it says there how
// it ended. They have secrets as the log has.
func Errors(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	var kept []string
	size := 0
	for i := len(lines) - 1; i >= 0; i-- {
		if told.MatchString(lines[i]) {
			continue
		}
		if size += len(lines[i]) + 1; size > mostErrors {
			break
		}
		kept = append([]string{lines[i]}, kept...)
	}
	return strings.Join(kept, "\n")
}
