package steps

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/version"
)

// NodeType says what a node is.
type NodeType string

// The values of NodeType.
const (
	ControlPlane NodeType = "ControlPlane"
	Worker       NodeType = "Worker"
)

// DrainPolicy reports whether pods leave the node before its kubelet restarts.
type DrainPolicy string

// The values of DrainPolicy. Empty is DrainNever.
const (
	// DrainNever leaves pods where they are.
	DrainNever DrainPolicy = "Never"
	// DrainBestEffort goes on when the time is over.
	DrainBestEffort DrainPolicy = "BestEffort"
	// DrainRequired fails when the time is over, and uncordons the node.
	DrainRequired DrainPolicy = "Required"
)

// Argument is an argument of a kubelet: a flag without dashes, and its value.
type Argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// KubeletArguments is what of a kubelet's arguments changes. Those that are named nowhere stay as they are.
type KubeletArguments struct {
	// ExtraArgs are to be there, in place of whatever has their names.
	ExtraArgs []Argument `json:"extraArgs,omitempty"`
	// RemovedArgs are names of those that go.
	RemovedArgs []string `json:"removedArgs,omitempty"`
}

// IsZero reports whether nothing changes.
func (k KubeletArguments) IsZero() bool { return len(k.ExtraArgs)+len(k.RemovedArgs) == 0 }

// Wanted is what a node must run, and how it is brought there. Each step reads it as JSON.
type Wanted struct {
	// ID tells upgrades apart: the UID of the NodeUpgrade. A step that finds the traces of another upgrade begins again.
	ID string `json:"id"`
	// Attempt is the number of the pod, from 1 on. What was rolled back is tried again only by a pod that came after the one that reported it.
	Attempt int32 `json:"attempt"`
	// Node is the name of the Node.
	Node string `json:"node"`
	// Pod is the name of the pod that carries out the steps.
	Pod string `json:"pod,omitempty"`
	// Type says what the node is.
	Type NodeType `json:"type"`
	// KubernetesVersion is the wanted version, such as v1.36.3.
	KubernetesVersion string `json:"kubernetesVersion"`
	// EtcdVersion is the image tag of stacked etcd. Defaults to what kubeadm's configuration says, or else to the one of kubeadm.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Kubelet is what of the kubelet's arguments changes.
	Kubelet KubeletArguments `json:"kubelet,omitzero"`
	// Brings is what the image has beside the programs of Kubernetes.
	Brings Brings `json:"brings,omitzero"`
	// Files are the user's that the node is to have. What they hold is in FilesDir, by FileKey.
	Files []File `json:"files,omitempty"`
	// Patches is the folder on the node with kubeadm's patches; empty: there are none.
	Patches string `json:"patches,omitempty"`
	// SkipPhases are kubeadm's phases that are skipped. Others do their work. See LeftToOthers.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// AwaitImages: somebody brings the images of the version to the node, and may not have ended: they are waited for before any is pulled.
	AwaitImages bool `json:"awaitImages,omitempty"`
	// First: it is the first node of its control plane, so that what the cluster has once is brought up to date with it.
	First bool `json:"first,omitempty"`
	// SingleNode: the cluster has no other node, so that pods have nowhere to go.
	SingleNode bool `json:"singleNode,omitempty"`
	// StackedEtcd: a member of etcd runs on the node.
	StackedEtcd bool `json:"stackedEtcd,omitempty"`
	// Drain reports whether pods leave the node before.
	Drain DrainPolicy `json:"drain,omitempty"`
	// DrainTimeoutSeconds is how long draining may take. Defaults to 300.
	DrainTimeoutSeconds int32 `json:"drainTimeoutSeconds,omitempty"`
	// VerifyTimeoutSeconds is how long the new version may take until it serves. Defaults to 120.
	VerifyTimeoutSeconds int32 `json:"verifyTimeoutSeconds,omitempty"`
}

// CordonedAnnotation on a Node names the upgrade, by Wanted.ID, that made it unschedulable: only that one makes it schedulable again.
const CordonedAnnotation = "upgrade.cluster.x-k8s.io/cordoned-by"

// Defaults of Wanted, in seconds.
const (
	DefaultDrainTimeout  = 300
	DefaultVerifyTimeout = 120
)

// usualLimit is how long a step may take that waits for nothing in particular, startLimit how long besides for a step that does.
const (
	usualLimit = 10 * time.Minute
	startLimit = 2 * time.Minute
)

// Limit is how long a step may take before it counts as hung, and is cut off.
func (w Wanted) Limit(name Name) time.Duration {
	seconds := func(given, otherwise int32) time.Duration {
		return time.Duration(cmp.Or(given, otherwise)) * time.Second
	}
	verify := seconds(w.VerifyTimeoutSeconds, DefaultVerifyTimeout)
	switch name {
	case Images:
		return 3 * usualLimit
	case Drain:
		return seconds(w.DrainTimeoutSeconds, DefaultDrainTimeout) + startLimit
	case Swap:
		return 2*verify + time.Minute + startLimit // the time counts twice: for the new version, and for the old one that was put back
	case Finish:
		return verify + usualLimit
	case Verify:
		return 2*verify + time.Minute + startLimit // and so is this one, where it fails
	}
	return usualLimit
}

// Node is what was found on a node.
type Node struct {
	// KubeletVersion is what its Node says; empty: it is not known.
	KubeletVersion string
	// Runtime is the container runtime with its version, as its Node says: containerd://2.4.2. Empty: it is not known.
	Runtime string
}

// Name is the name of a step, as the type of its condition has it.
type Name string

// The steps, in their order.
const (
	Copy       Name = "Copy"
	Containerd Name = "Containerd"
	CNI        Name = "CNI"
	Images     Name = "Images"
	Render     Name = "Render"
	Backup     Name = "Backup"
	Drain      Name = "Drain"
	Handover   Name = "Handover"
	Swap       Name = "Swap"
	Finish     Name = "Finish"
	Uncordon   Name = "Uncordon"
	Verify     Name = "Verify"
)

// Command is the upgrader's command for the step.
func (n Name) Command() string { return strings.ToLower(string(n)) }

// ByCommand returns the step of a command of the upgrader.
func ByCommand(command string) (Step, bool) {
	for _, s := range all {
		if s.Name.Command() == command {
			return s, true
		}
	}
	return Step{}, false
}

// Stage is the name of a container, which carries out the steps of the stage one after the other. From the end of one container to the
// start of the next the kubelet takes about a second, whatever little a step does.
type Stage string

// The stages, in their order.
const (
	// Preparation interrupts nothing.
	Preparation Stage = "prepare"
	// Leaving is when pods leave the node.
	Leaving Stage = "drain"
	// Exchange is when the node's components are away.
	Exchange Stage = "exchange"
	// Conclusion is what follows while the node serves at the new version.
	Conclusion Stage = "conclude"
)

// Does says in a few words what a stage does.
func (s Stage) Does() string {
	return map[Stage]string{
		Preparation: "prepares what will be exchanged, and a backup; nothing is interrupted",
		Leaving:     "evicts the node's pods",
		Exchange: "hands over the leadership of etcd, makes sure that its other voters have the quorum, and replaces the programs and " +
			"manifests at once, under a stopped kubelet",
		Conclusion: "does over the API what is left of kubeadm's upgrade, and waits until the node is healthy at the new version",
	}[s]
}

// Stages are the steps of a list by their stages, in their order. None is empty.
func Stages(list []Step) [][]Step {
	var stages [][]Step
	for i, s := range list {
		if i == 0 || list[i-1].Stage != s.Stage {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], s)
	}
	return stages
}

// Parts is a set of what a node is made of.
type Parts uint8

// The members of Parts.
const (
	// APIServer is the API server of this node.
	APIServer Parts = 1 << iota
	// Etcd is the member of etcd on this node.
	Etcd
	// Controllers are the controller manager and the scheduler of this node.
	Controllers
	// Kubelet is the kubelet: without it nothing starts on the node, and containers go on.
	Kubelet
	// Pods are the pods of users.
	Pods
)

// Has reports whether all of other are in p.
func (p Parts) Has(other Parts) bool { return p&other == other }

// Needs is a set of what must work for a step to begin.
type Needs uint8

// The members of Needs.
const (
	// API is the cluster's API, of whatever node.
	API Needs = 1 << iota
	// Member is a serving member of etcd on this node.
	Member
)

// Undo says how what a step changed is undone.
type Undo string

// The values of Undo.
const (
	// NothingToUndo: the step changes nothing that runs, only files in the upgrader's own folder, or images.
	NothingToUndo Undo = "Nothing"
	// UndoUncordon makes the node schedulable again.
	UndoUncordon Undo = "Uncordon"
	// UndoRestore puts back what Backup kept, all of the node at once. What a step changed over the API stays: each part of it suits the old
	// and the new version.
	UndoRestore Undo = "Restore"
)

// Step is one step. Steps are values, and can be compared.
type Step struct {
	Name Name
	// Stage says in which container it is carried out.
	Stage Stage
	// Does says in a few words what it does.
	Does string
	// Needs is what must work when it begins.
	Needs Needs
	// Checks says what it makes sure of before it reports that it is done.
	Checks string
	// Undo is how it is undone.
	Undo Undo
	// Interrupts is what does not serve meanwhile, for seconds.
	Interrupts Parts
}

// all are the steps in their order.
var all = []Step{
	{Name: Copy, Stage: Preparation, Does: "copies the new programs to the node", Checks: "their checksums", Undo: NothingToUndo},
	{Name: Containerd, Stage: Preparation, Does: "has containerd and runc of the image ready, to be exchanged with all else",
		Checks: "their checksums, and that the image brings what it says", Undo: NothingToUndo},
	{Name: CNI, Stage: Preparation, Does: "has the CNI plugins of the image ready, to be exchanged with all else",
		Checks: "their checksums, and that the image brings what it says", Undo: NothingToUndo},
	{Name: Images, Stage: Preparation, Does: "has the images of the new version on the node", Checks: "that the runtime knows each image",
		Undo: NothingToUndo},
	{Name: Render, Stage: Preparation, Does: "writes the new version's manifests to a folder of their own", Needs: API,
		Checks: "that there is one for each component", Undo: NothingToUndo},
	{Name: Backup, Stage: Preparation, Does: "keeps what will be replaced, and a snapshot of etcd", Checks: "the snapshot's hash, and that " +
		"it can be opened", Undo: NothingToUndo},
	{Name: Drain, Stage: Leaving, Does: "evicts the node's pods", Needs: API, Checks: "that no pod is left that could leave",
		Undo: UndoUncordon, Interrupts: Pods},
	{Name: Handover, Stage: Exchange, Does: "moves the leadership of etcd to another member", Needs: Member,
		Checks: "that another member leads", Undo: NothingToUndo},
	{Name: Swap, Stage: Exchange, Does: "makes sure that the other voters of etcd have the quorum, and replaces the programs and manifests " +
		"at once, under a stopped kubelet", Checks: "that all components serve at the new version", Undo: UndoRestore,
		Interrupts: APIServer | Etcd | Controllers | Kubelet},
	{Name: Finish, Stage: Conclusion, Does: "does over the API what is left of kubeadm's upgrade", Needs: API,
		Checks: "that kubeadm ends without an error", Undo: UndoRestore, Interrupts: Kubelet},
	{Name: Uncordon, Stage: Conclusion, Does: "lets pods be scheduled to the node again", Needs: API, Checks: "that the node can be " +
		"scheduled to", Undo: NothingToUndo},
	{Name: Verify, Stage: Conclusion, Does: "waits until the node is healthy at the new version", Needs: API,
		Checks: "Node, static pods, their probes, member of etcd", Undo: UndoRestore},
}

// All returns every step that there is, in their order.
func All() []Step { return append([]Step(nil), all...) }

// List returns the steps of a node in their order. Those that change nothing there are left out. What cannot be carried out is an error.
func List(node Node, wanted Wanted) ([]Step, error) {
	if err := possible(node, wanted); err != nil {
		return nil, err
	}
	var list []Step
	for _, s := range all {
		if wanted.applies(node, s.Name) {
			if s.Name == Swap {
				s.Interrupts = wanted.interrupted()
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// applies reports whether a step changes something on the node.
func (w Wanted) applies(node Node, name Name) bool {
	switch name {
	case Containerd:
		return w.Brings.changesRuntime(node.Runtime)
	case CNI:
		return w.Brings.CNI != ""
	case Render:
		return w.Type == ControlPlane
	case Drain, Uncordon:
		return w.Drains()
	case Handover:
		return w.HasPeers()
	default:
		return true
	}
}

// Drains reports whether pods leave the node before.
func (w Wanted) Drains() bool { return !w.SingleNode && w.Drain != "" && w.Drain != DrainNever }

// HasPeers reports whether the node has a member of etcd that others can do without.
func (w Wanted) HasPeers() bool { return w.Type == ControlPlane && w.StackedEtcd && !w.SingleNode }

// interrupted is what the swap interrupts.
func (w Wanted) interrupted() Parts {
	parts := Kubelet
	if w.Type == ControlPlane {
		parts |= APIServer | Controllers
		if w.StackedEtcd {
			parts |= Etcd
		}
	}
	return parts
}

// possible says why a node cannot be brought to what is wanted; nil: it can.
func possible(node Node, wanted Wanted) error {
	if wanted.Type != ControlPlane && wanted.Type != Worker {
		return fmt.Errorf("upgrading node %s: node type %q is neither %s nor %s", wanted.Node, wanted.Type, ControlPlane, Worker)
	}
	if why := UnfitRuntime(node.Runtime); why != "" {
		return fmt.Errorf("upgrading node %s: %s", wanted.Node, why)
	}
	to, err := version.Parse(wanted.KubernetesVersion)
	if err != nil {
		return fmt.Errorf("upgrading node %s: %w", wanted.Node, err)
	}
	if node.KubeletVersion == "" {
		return nil
	}
	from, err := version.Parse(node.KubeletVersion)
	if err != nil {
		return fmt.Errorf("upgrading node %s: its kubelet: %w", wanted.Node, err)
	}
	if version.Compare(from.Release(), to.Release()) > 0 {
		return fmt.Errorf("upgrading node %s: it runs %s, and kubeadm does not go back to %s", wanted.Node, from, to)
	}
	// kubeadm goes one minor version at a time; a worker's kubelet may be three behind.
	most := 1
	if wanted.Type == Worker {
		most = 3
	}
	if from.Major != to.Major || to.Minor-from.Minor > most {
		return fmt.Errorf("upgrading node %s: it runs %s, and %s is more than %d minor versions away", wanted.Node, from, to, most)
	}
	return nil
}
