package provider

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/joinfailure"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/plaintext"
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
		return &problem{infrav1.FrozenReason, "it was paused on purpose; `quorate machine resume " + s.Name + "` resumes it"}
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

// bootstrapProblem is why a machine has not executed its bootstrap data, or has and cannot join; nil: it has. token is what the cluster
// knew of the machine's bootstrap token.
func bootstrapProblem(s *sandbox.Status, of owner, token infrav1.BootstrapTokenStatus) *problem {
	b := s.Bootstrap
	switch {
	case b.Phase == "":
		return notBegun(of)
	case b.Phase == sandbox.BootstrapSucceeded:
		return kubeletProblem(s, of, token)
	case b.Unsupported != "":
		return &problem{infrav1.BootstrapDataUnsupportedReason,
			joined(fmt.Sprintf("local machines cannot carry out %q", plaintext.Shown(b.Unsupported)), b.Output)}
	case b.Phase == sandbox.BootstrapFailed:
		return failureProblem(s, token)
	case b.Command == "":
		return &problem{infrav1.BootstrapRunningReason, "it has begun"}
	default:
		return &problem{infrav1.BootstrapRunningReason, "`" + brief(b.Command) + "` runs"}
	}
}

// failureProblem is why the bootstrap of a machine failed: a cause that is known, or what the command printed.
func failureProblem(s *sandbox.Status, token infrav1.BootstrapTokenStatus) *problem {
	b := s.Bootstrap
	found := joinfailure.Of(joinfailure.Facts{Command: b.Command, Log: b.Output, Kubelet: s.Kubelet, Full: b.Full, Token: tokenOf(token),
		Ended: b.Ended})
	switch {
	case found.Reason != joinfailure.Unknown:
		return causeProblem(found)
	case b.Command == "":
		return &problem{infrav1.BootstrapFailedReason, joined("it failed", end(b.Output))}
	default:
		return &problem{infrav1.BootstrapFailedReason, joined("`"+brief(b.Command)+"` failed", cmp.Or(found.Line, end(b.Output)))}
	}
}

// kubeletProblem is why a machine whose bootstrap data was executed cannot join: kubeadm is content with a kubelet that answers once, and
// this one ends again and again for a cause that is known. A machine that has a Node has joined, whatever its kubelet does.
func kubeletProblem(s *sandbox.Status, of owner, token infrav1.BootstrapTokenStatus) *problem {
	if s.Kubelet == "" || of.machine.Status.NodeRef.IsDefined() {
		return nil
	}
	found := joinfailure.Of(joinfailure.Facts{Kubelet: s.Kubelet, Token: tokenOf(token), Ended: s.Bootstrap.Ended})
	if found.Reason == joinfailure.Unknown {
		return nil
	}
	found.Message = "kubeadm has ended, and the kubelet ends again and again: " + found.Message
	return causeProblem(found)
}

func causeProblem(f joinfailure.Failure) *problem {
	message := f.Message
	if f.Line != "" {
		message += ". The log says: " + f.Line
	}
	return &problem{string(f.Reason), message}
}

func tokenOf(t infrav1.BootstrapTokenStatus) joinfailure.Token {
	return joinfailure.Token{ID: t.ID, Expires: t.ExpirationTime.Time}
}

// longestOutput is how much of the end of a command's output is told, in bytes.
const longestOutput = 2 << 10

// end is the end of an output, from the beginning of a line on. Secrets are taken out before it is cut.
func end(output string) string {
	output = plaintext.Shown(output)
	if len(output) <= longestOutput {
		return output
	}
	last := output[len(output)-longestOutput:]
	if _, rest, found := strings.Cut(last, "\n"); found && rest != "" {
		return rest
	}
	return strings.ToValidUTF8(last, "")
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

// summed is the reason by which a machine's Ready tells of a problem. Of all causes for which a machine cannot join it is the same, by
// which others know that this is final.
func summed(reason string) string {
	if joinfailure.IsReason(reason) {
		return infrav1.BootstrapFailedReason
	}
	return reason
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
			sum = &problem{summed(c.Reason), c.Message}
		default:
			sum.message += "; bootstrap: " + c.Message
		}
	}
	return sum
}
