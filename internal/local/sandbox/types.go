package sandbox

import (
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// ErrNotFound says that there is no machine of that name.
var ErrNotFound = errors.New("no such machine")

// Spec is a machine that is wanted. It is kept in the machine's folder, so that a machine can be started
// again by anybody who has the state folder.
type Spec struct {
	// Name is the machine's and its host name: a DNS label, at most 63 characters, unique in the environment.
	Name string `json:"name"`
	// Owner is the UID of the object that the machine was made for, which may have another UID by now: it was moved to another API server. It
	// never changes. Empty: the machine was made by a release that did not record it; Ensure records it then.
	Owner string `json:"owner,omitempty"`
	// Cluster is the cluster that it belongs to; only shown.
	Cluster string `json:"cluster,omitempty"`
	// FailureDomain is the name of the domain that it stands for; only shown.
	FailureDomain string `json:"failureDomain,omitempty"`
	// Address is the machine's own, in the environment's network.
	Address netip.Addr `json:"address"`
	// PodCIDR is the range from which this machine's pods get their addresses; IPv4.
	PodCIDR netip.Prefix `json:"podCIDR"`
	// Address6 is the machine's IPv6 address: Address6 of Address. Not valid: the machine has none.
	Address6 netip.Addr `json:"address6,omitzero"`
	// PodCIDR6 is the IPv6 range from which this machine's pods get their addresses. Not valid: they have no IPv6 addresses.
	PodCIDR6 netip.Prefix `json:"podCIDR6,omitzero"`
	// IPv6Only: Address and PodCIDR only tell the machine from others. Neither the machine nor its pods have an IPv4 address.
	IPv6Only bool `json:"ipv6Only,omitempty"`
	// Artifacts are the programs and images that the machine comes with. A machine without programs of Kubernetes has neither
	// containerd nor a kubelet.
	Artifacts artifacts.Set `json:"artifacts"`
	// Resources are its limits. They are the same for the machine's whole life, and are set before anything runs in it.
	Resources Resources `json:"resources,omitzero"`
}

// State is what a machine is doing.
type State string

// The states of a machine.
const (
	// Running: its first process lives.
	Running State = "Running"
	// Stopped: somebody powered it off on purpose; Ensure leaves it so.
	Stopped State = "Stopped"
	// Paused: all its processes are frozen.
	Paused State = "Paused"
	// Dead: it should run and does not: it crashed, the host was booted, or it was never started. Ensure starts it.
	Dead State = "Dead"
)

// Status is what a machine is and does.
type Status struct {
	Spec
	State State `json:"state"`
	// Partitioned: its link is cut on purpose.
	Partitioned bool `json:"partitioned,omitempty"`
	// PID is the host's number of the machine's first process; 0 when it does not run.
	PID int `json:"pid,omitempty"`
	// Ready: containerd, where the machine has it, answers and the images are there.
	Ready bool `json:"ready"`
	// Problem says why the machine is not Ready although it runs, or why it could not start; empty when nothing is known.
	Problem string `json:"problem,omitempty"`
	// Bootstrap is how far its bootstrap data got.
	Bootstrap Bootstrap `json:"bootstrap"`
	// Kubelet are the last errors that the kubelet logged before the bootstrap failed, or, after it succeeded, while the kubelet ends again
	// and again; else empty.
	Kubelet string `json:"kubelet,omitempty"`
}

// The phases of Bootstrap.
const (
	// BootstrapRunning: the data is being executed.
	BootstrapRunning = "Running"
	// BootstrapSucceeded: all of it was executed.
	BootstrapSucceeded = "Succeeded"
	// BootstrapFailed: it cannot be executed, a command failed, or the machine was powered off meanwhile. It is not tried again.
	BootstrapFailed = "Failed"
)

// Bootstrap is how far a machine's bootstrap data got.
type Bootstrap struct {
	// Phase is empty while there is no data, else Running, Succeeded or Failed.
	Phase string `json:"phase,omitempty"`
	// Command is the one that runs, or that failed.
	Command string `json:"command,omitempty"`
	// Output is the end of what it printed, at most 8 KiB; or why the data cannot be executed.
	Output string `json:"output,omitempty"`
	// Unsupported is the directive of the data that machines of this kind cannot carry out.
	Unsupported string `json:"unsupported,omitempty"`
	// Full are the file systems of the machine to which nothing could be written when it failed, separated by commas.
	Full string `json:"full,omitempty"`
	// Ended is when it succeeded or failed, by the machine's clock, which is the host's.
	Ended time.Time `json:"ended,omitzero"`
}

// Stdio is what a command in a machine reads and writes. A nil In is empty input, a nil Out or Err is discarded.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
	// TTY gives the command a terminal of its own; In must then be a terminal (an *os.File), and Out gets both streams.
	TTY bool
}
