package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// The folder that host and machine share, as the machine sees it, and the files in it.
const (
	// SharedDir is where the machine sees the shared folder.
	SharedDir = "/var/lib/quorate"
	// BootFile is the Boot, written by the host before each start.
	BootFile = "boot.json"
	// UserDataFile is the bootstrap data, written by the host once.
	UserDataFile = "user-data"
	// StatusFile is the Status, written by the machine.
	StatusFile = "status.json"
	// LogDir is where the machine sees the folder of its logs.
	LogDir = "/var/log/quorate"
	// ProgramDir holds quorate-node under its own name and as systemctl.
	ProgramDir = "/opt/quorate/sbin"
	// MachineDir holds the programs of the Kubernetes version.
	MachineDir = "/opt/quorate/bin"
	// ImageDir holds image archives that are imported at the first start.
	ImageDir = "/opt/quorate/images"
	// KubeletDropIns holds what kubelets need on this kind of machine.
	KubeletDropIns = "/etc/quorate/kubelet.d"
)

// Path is the PATH of everything that runs in a machine.
const Path = ProgramDir + ":" + MachineDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Boot is all that a machine's first process is told. Paths on the left are the host's.
type Boot struct {
	// Name is the host name.
	Name string `json:"name"`
	// Address is the machine's own, without a prefix length; of several the first.
	Address string `json:"address"`
	// Address4 and Address6 are the machine's addresses by family; empty: it has none of that.
	Address4 string `json:"address4,omitempty"`
	Address6 string `json:"address6,omitempty"`
	// Pods are the ranges of this machine's pods, one for each family.
	Pods []Pods `json:"pods,omitempty"`
	// Disk is the folder that becomes the machine's root.
	Disk string `json:"disk"`
	// Overlays are folders of the host that the machine may change for itself.
	Overlays []Overlay `json:"overlays"`
	// Binds are files and folders of the host that the machine sees.
	Binds []Bind `json:"binds"`
	// Cgroups are the hierarchies that the machine's processes belong to.
	Cgroups Cgroups `json:"cgroups"`
	// Containers: containerd and the kubelet belong to this machine.
	Containers bool `json:"containers"`
}

// Pods are the addresses of one family that a machine's pods have.
type Pods struct {
	// Range is that of this machine's pods.
	Range string `json:"range"`
	// Network is the range of all machines, and Gateway the host's address in it.
	Network string `json:"network"`
	Gateway string `json:"gateway"`
}

// Overlay shows Lower, a folder of the host, at Target in the machine; what is written lands in Upper.
type Overlay struct {
	Lower  string `json:"lower"`
	Upper  string `json:"upper"`
	Work   string `json:"work"`
	Target string `json:"target"`
}

// Bind shows Source, a file or folder of the host, at Target in the machine.
type Bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Cgroups are the control groups of one machine.
type Cgroups struct {
	// Unified: one hierarchy of cgroup v2; otherwise those of v1.
	Unified bool `json:"unified"`
	// Hierarchies of v1, each with what it is mounted with.
	Hierarchies []Hierarchy `json:"hierarchies,omitempty"`
	// Procs are the cgroup.procs files, on the host, that a process is written to in order to belong to the machine.
	Procs []string `json:"procs"`
}

// Hierarchy is one of cgroup v1.
type Hierarchy struct {
	// Name is the folder's name under /sys/fs/cgroup.
	Name string `json:"name"`
	// Options are what it is mounted with: its controllers, or name=systemd.
	Options string `json:"options"`
}

// Status is what a machine says of itself.
type Status struct {
	// Ready: containerd answers and the images are there.
	Ready bool `json:"ready"`
	// Problem says why it is not ready; empty when nothing went wrong yet.
	Problem string `json:"problem,omitempty"`
	// Bootstrap is how far the bootstrap data got.
	Bootstrap Bootstrap `json:"bootstrap"`
	// Kubelet are the last errors that the kubelet logged before the bootstrap failed, or, after it succeeded, while the kubelet ends again
	// and again; else empty.
	Kubelet string `json:"kubelet,omitempty"`
}

// Bootstrap is how far the bootstrap data got. Phase is empty, Running, Succeeded or Failed.
type Bootstrap struct {
	Phase string `json:"phase,omitempty"`
	// Command is the one that runs, or the one that failed.
	Command string `json:"command,omitempty"`
	// Output is the end of what Command printed, or why the data cannot be carried out.
	Output string `json:"output,omitempty"`
	// Unsupported is the directive that machines of this kind cannot carry out.
	Unsupported string `json:"unsupported,omitempty"`
	// Full are the file systems to which nothing could be written when it failed, separated by commas.
	Full string `json:"full,omitempty"`
	// Ended is when it succeeded or failed.
	Ended time.Time `json:"ended,omitzero"`
}

func readBoot(path string) (*Boot, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading what the host hands over: %w", err)
	}
	var b Boot
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &b, nil
}
