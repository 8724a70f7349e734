package local

import (
	"fmt"
	"strings"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/plaintext"
	"github.com/quorate/quorate/internal/sandbox"
)

// sandboxProblem is why a machine is not there to be used; nil: it is.
func sandboxProblem(s *sandbox.Status) *problem {
	because := ""
	if s.Problem != "" {
		because = ": " + plaintext.Shown(s.Problem)
	}
	switch {
	case s.State == sandbox.Stopped:
		return &problem{infrav1.StoppedReason, "it was powered off on purpose; `quorate machine start " + s.Name + "` powers it on"}
	case s.State == sandbox.Paused:
		return &problem{infrav1.FrozenReason, "it was paused on purpose; `quorate machine resume " + s.Name + "` lets it go on"}
	case s.State == sandbox.Dead:
		return &problem{infrav1.DiedReason, "its first process has ended" + because + "; `quorate machine start " + s.Name + "` starts it again"}
	case s.Partitioned:
		return &problem{infrav1.PartitionedReason, "its link was cut on purpose; `quorate machine heal " + s.Name + "` mends it"}
	case !s.Ready:
		return &problem{infrav1.StartingReason, "containerd does not answer yet" + because}
	default:
		return nil
	}
}

// notBegun is what a machine that executes nothing waits for.
func notBegun(of owner) *problem {
	if of.machine.Spec.Bootstrap.DataSecretName == nil {
		return &problem{infrav1.WaitingForBootstrapDataReason, "Machine " + of.machine.Name + " names no bootstrap data yet"}
	}
	return &problem{infrav1.BootstrapRunningReason, "waiting for the machine to begin"}
}

// bootstrapProblem is why a machine has not executed its bootstrap data; nil: it has.
func bootstrapProblem(s *sandbox.Status, of owner) *problem {
	b := s.Bootstrap
	switch {
	case b.Phase == "":
		return notBegun(of)
	case b.Phase == sandbox.BootstrapSucceeded:
		return nil
	case b.Unsupported != "":
		return &problem{infrav1.BootstrapDataUnsupportedReason, joined(fmt.Sprintf("local machines cannot carry out %q", plaintext.Shown(b.Unsupported)), b.Output)}
	case b.Phase == sandbox.BootstrapFailed && b.Command == "":
		return &problem{infrav1.BootstrapFailedReason, joined("it failed", b.Output)}
	case b.Phase == sandbox.BootstrapFailed:
		return &problem{infrav1.BootstrapFailedReason, joined("`"+brief(b.Command)+"` failed", b.Output)}
	case b.Command == "":
		return &problem{infrav1.BootstrapRunningReason, "it has begun"}
	default:
		return &problem{infrav1.BootstrapRunningReason, "`" + brief(b.Command) + "` runs"}
	}
}

func joined(what, output string) string {
	if output = strings.TrimSpace(plaintext.Shown(output)); output == "" {
		return what
	}
	return what + ": " + output
}

// longestCommand is how much of a command is told: enough to know which one it is.
const longestCommand = 200

// brief is the first line of a command. Secrets are taken out before it is cut: half a token would not be known for one.
func brief(command string) string {
	command = plaintext.Shown(command)
	line, _, more := strings.Cut(strings.TrimSpace(command), "\n")
	if len(line) > longestCommand {
		line, more = line[:longestCommand], true
	}
	if more {
		line += " ..."
	}
	return line
}

// firstProblem sums up what keeps a machine from being ready: the reason of the first, what is to be said of each.
func firstProblem(lm *infrav1.LocalMachine) *problem {
	var sum *problem
	for _, name := range []string{infrav1.SandboxReadyCondition, infrav1.BootstrapSucceededCondition} {
		if conditions.IsTrue(lm, name) {
			continue
		}
		c := conditions.Get(lm, name)
		switch {
		case c == nil:
			continue
		case sum == nil:
			sum = &problem{c.Reason, c.Message}
		default:
			sum.message += "; bootstrap: " + c.Message
		}
	}
	return sum
}
