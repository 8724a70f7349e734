package steps

import (
	"encoding/json"
	"fmt"
	"strings"
)

// State says how a step ended.
type State string

// The values of State. Empty: it was cut off, and can be begun again.
const (
	// Interrupted: the step left no word, because it was killed or its node went down.
	Interrupted State = ""
	// Done: what the step is for was reached.
	Done State = "Done"
	// Skipped: there was nothing to do, or it was done before.
	Skipped State = "Skipped"
	// Failed: the step failed, and the node runs what it ran before the step.
	Failed State = "Failed"
	// RolledBack: the new version did not come up, and the node runs the old one again.
	RolledBack State = "RolledBack"
)

// Succeeded reports whether the next step may begin.
func (s State) Succeeded() bool { return s == Done || s == Skipped }

// ExitCode is the exit code of a step that ended so.
func (s State) ExitCode() int {
	switch s {
	case Done, Skipped:
		return 0
	case RolledBack:
		return 2
	default:
		return 1
	}
}

// How many bytes of Message are kept, of a step that failed and of one that succeeded: a termination message has at most 4096, and those of
// all containers 12 KiB.
const (
	mostMessage = 800
	mostSaid    = 400
)

// Result is what a step reports: a line of its container's termination message.
type Result struct {
	// Step is the name of the step.
	Step  Name  `json:"step,omitempty"`
	State State `json:"state"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Message is the end of what the step printed, without secrets.
	Message string `json:"message,omitempty"`
	// FailedStep is the step that failed, where that may be another one than the one that reports it; empty: it is the same.
	FailedStep Name `json:"failedStep,omitempty"`
	// Advice says what a person can do; empty unless it failed.
	Advice string `json:"advice,omitempty"`
}

// Line is the result as the termination message has it. What is too long of the message loses its beginning.
func (r Result) Line() (string, error) {
	most := mostMessage
	if r.State.Succeeded() {
		most = mostSaid
	}
	if len(r.Message) > most {
		r.Message = strings.ToValidUTF8("…"+r.Message[len(r.Message)-most:], "")
	}
	line, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("writing the result of a step: %w", err)
	}
	return string(line), nil
}

// ParseResults reads a termination message: what each step of the container reported that ended. With FallbackToLogsOnError it may be the
// end of a log: a line that is no result says nothing.
func ParseResults(message string) map[Name]Result {
	results := map[Name]Result{}
	for _, line := range strings.Split(message, "\n") {
		var r Result
		if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &r); err != nil {
			continue
		}
		switch r.State {
		case Done, Skipped, Failed, RolledBack:
			results[r.Step] = r
		}
	}
	return results
}

// The label of the pod that carries the steps out: draining its node leaves it there.
const (
	PodLabel      = "app.kubernetes.io/name"
	PodLabelValue = "quorate-upgrader"
)
